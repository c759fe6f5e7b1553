package supervisor

import (
	"sync"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// meter is a zapcore.Core that writes what one guest's backend has the parent log, within a budget.
// All log messages of the guest pass through it, whichever process wrote them.
type meter struct {
	zapcore.Core // where it goes
	shared       *meterState
	size         zapcore.Encoder // with the fields that were added, to measure entries
}

// meterState belongs to a meter and all that are derived from it.
type meterState struct {
	mu     sync.Mutex
	budget budget
	guest  string
}

// newMeter makes a meter for the messages of a guest.
func newMeter(to zapcore.Core, guest string) *meter {
	return &meter{Core: to, size: zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()),
		shared: &meterState{budget: newBudget(), guest: guest}}
}

// With implements zapcore.Core.
func (m *meter) With(fields []zapcore.Field) zapcore.Core {
	size := m.size.Clone()
	for _, f := range fields {
		f.AddTo(size)
	}
	return &meter{Core: m.Core.With(fields), shared: m.shared, size: size}
}

// Check implements zapcore.Core.
func (m *meter) Check(e zapcore.Entry, c *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if m.Enabled(e.Level) {
		return c.AddCore(e, m)
	}
	return c
}

// Write implements zapcore.Core.
func (m *meter) Write(e zapcore.Entry, fields []zapcore.Field) error {
	b, err := m.size.EncodeEntry(e, fields)
	if err != nil {
		return err
	}
	n := b.Len()
	b.Free()
	s := m.shared
	s.mu.Lock()
	fits := s.budget.take(e.Time, n, e.Level >= zapcore.ErrorLevel)
	dropped, due := s.budget.notice(e.Time, false)
	s.mu.Unlock()
	if due {
		err = m.tell(e.Time, dropped)
	}
	if !fits {
		return err
	}
	return m.Core.Write(e, fields)
}

// spent reports whether there is no use in looking at a message of n bytes, and counts it if so.
func (m *meter) spent(n int) bool {
	s := m.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.budget.spent(time.Now(), n)
}

// close reports the messages dropped since the last report.
func (m *meter) close() {
	s := m.shared
	s.mu.Lock()
	now := time.Now()
	dropped, due := s.budget.notice(now, true)
	s.mu.Unlock()
	if due {
		_ = m.tell(now, dropped) // no caller is left to handle an error
	}
}

// tell writes a notice of dropped messages.
func (m *meter) tell(now time.Time, dropped uint64) error {
	const longest = 64 // bytes of a name: a notice has at most noticeBytes
	e := zapcore.Entry{Level: zapcore.WarnLevel, Time: now, Message: "messages of a backend were dropped: it writes too much"}
	return m.Core.Write(e, []zapcore.Field{zap.String("guest", shorten(Escape(m.shared.guest), longest)), zap.Uint64("dropped", dropped)})
}
