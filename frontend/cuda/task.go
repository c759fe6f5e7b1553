package cuda

import "pvdrm/drm"

// Task queues what build queues on the stream as a task: work that PVDRM may run
// again from its start, after it was stopped for another guest or the process on
// the host that ran it has ended. CUDA has no such call.
//
// A task brings its input with it, from host memory that it does not write, and takes
// its results to host memory: from one to the next, device memory and variables may
// have become zero, or as the module says. Only if all the work of a context are
// tasks can it be run again. Synchronous calls, which wait for the stream, fail
// inside of build. So does, in the end, a task that is longer than drm.MaxExecBytes.
// Nothing is queued if build returns an error, which Task returns.
func (s *Stream) Task(build func() error) error {
	const call = "Task"
	if err := s.collect(call); err != nil {
		return err
	}
	built := build()

	c := s.c
	entered := c.enter(call)
	if entered == nil {
		defer c.life.RUnlock()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	stream := s.task
	s.task = nil
	switch {
	case built != nil:
		return built
	case entered != nil:
		return entered
	case len(stream) > drm.MaxExecBytes:
		return errorf(call, ErrInvalidValue, "%d bytes of commands; a task has at most %d", len(stream), drm.MaxExecBytes)
	}
	_, err := c.exec(call, s, stream)
	return err
}

// collect begins a task.
func (s *Stream) collect(call string) error {
	c := s.c
	if err := c.enter(call); err != nil {
		return err
	}
	defer c.life.RUnlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.dead || s.task != nil {
		return errorf(call, ErrInvalidHandle, "the stream is destroyed, or collects a task already")
	}
	s.task = drm.TaskCmd{}.Append(nil)
	return nil
}
