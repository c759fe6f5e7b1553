package hypercall

import "pvdrm/drm"

// Ask asks the GPU's driver what only it can answer.
type Ask struct {
	Question uint32   // drm.Question
	Function uint32   // that it is about, 0 for none
	Values   []uint64 // at most drm.MaxQuestion
}

// Append appends the encoded payload.
func (m Ask) Append(b []byte) []byte {
	return put64(put32(b, m.Question, m.Function, uint32(len(m.Values))), m.Values...)
}

// DecodeAsk decodes an Ask.
func DecodeAsk(b []byte) (m Ask, err error) {
	r := reader{b: b}
	m.Question, m.Function = r.u32(), r.u32()
	if m.Values, err = r.values(); err != nil {
		return m, err
	}
	return m, r.end()
}

// Answers is the answer to OpAsk.
type Answers struct {
	Values []uint64 // at most drm.MaxQuestion
}

// Append appends the encoded payload.
func (m Answers) Append(b []byte) []byte { return put64(put32(b, uint32(len(m.Values))), m.Values...) }

// DecodeAnswers decodes Answers.
func DecodeAnswers(b []byte) (m Answers, err error) {
	r := reader{b: b}
	if m.Values, err = r.values(); err != nil {
		return m, err
	}
	return m, r.end()
}

// values reads a list of values of a question.
func (r *reader) values() ([]uint64, error) {
	n := r.count(8)
	if n > drm.MaxQuestion {
		return nil, ErrMessage
	}
	all := make([]uint64, n)
	for i := range all {
		all[i] = r.u64()
	}
	return all, nil
}
