package host

import (
	"syscall"

	"pvdrm/frontend/gloop/abi"
)

// start serves a request, in a goroutine of its own where it may block.
func (p *program) start(at abi.Ref, r abi.Request) {
	if no := r.Check(); no != 0 {
		p.complete(at, -int64(no))
		return
	}
	p.complete(at, -int64(syscall.ENOSYS))
}
