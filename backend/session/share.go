package session

import (
	"pvdrm/drm"
	"pvdrm/hypercall"
)

func (s requests) GemShare(m hypercall.ID) (hypercall.Key, error) {
	key, err := s.file.ShareObject(m.ID)
	return hypercall.Key{Key: key}, err
}

func (s requests) GemOpen(m hypercall.Open) (hypercall.Opened, error) {
	size, err := s.file.OpenObject(m.ID, m.Key)
	return hypercall.Opened{Size: size}, err
}

func (s requests) EventNew(m hypercall.ID) (hypercall.Key, error) {
	key, err := s.file.NewEvent(m.ID)
	return hypercall.Key{Key: key}, err
}

func (s requests) EventOpen(m hypercall.Open) error { return s.file.OpenEvent(m.ID, m.Key) }

func (s requests) EventClose(m hypercall.ID) error { return s.file.CloseEvent(m.ID) }

func (s requests) EventRecord(m hypercall.EventPoint) error {
	return s.file.RecordEvent(m.Event, drm.Point{Channel: m.Channel, Seqno: m.Seqno})
}

func (s requests) EventWait(m hypercall.EventPoint) error {
	ch, err := s.file.Channel(m.Channel)
	if err == nil {
		_, err = s.file.WaitEvent(m.Event, ch, m.Seqno)
	}
	if err == nil {
		s.count.batches.Add(1)
	}
	return err
}

func (s requests) EventReached(m hypercall.ID) (hypercall.Reached, error) {
	done, err := s.file.EventReached(m.ID)
	if err != nil || !done {
		return hypercall.Reached{}, err
	}
	return hypercall.Reached{Reached: 1}, nil
}

// Stirred implements file.Observer: the pump looks at the batches that wait each time it wakes.
func (s progress) Stirred() { s.Kick() }
