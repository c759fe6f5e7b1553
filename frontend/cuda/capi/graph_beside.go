package capi

import "pvdrm/frontend/cuda"

// beside queues work of a graph in a context, where the graph runs on a stream of another one: when that
// gets there, and the stream goes on when the work is done. The context has a stream for it alone, which waits
// for no other.
func (c *context) beside(s *cuda.Stream, queue func(*cuda.Stream) error) error {
	if err := s.Synchronize(); err != nil {
		return err
	}
	own, err := c.streamBeside()
	if err != nil {
		return err
	}
	if err := queue(own); err != nil {
		return err
	}
	return own.Synchronize()
}

func (c *context) streamBeside() (*cuda.Stream, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.graphs == nil {
		s, err := c.NewStreamNonBlocking()
		if err != nil {
			return nil, err
		}
		c.graphs = s
	}
	return c.graphs, nil
}
