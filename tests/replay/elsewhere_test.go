package replay

import (
	"pvdrm/drm"
)

// elsewhere is a file of a driver whose windows lie elsewhere: higher in their
// ranges than those of the file below.
type elsewhere struct{ drm.Driver }

const shift = 64 << 20

func (e *elsewhere) GetParam(p drm.Param) (uint64, error) {
	v, err := e.Driver.GetParam(p)
	switch p {
	case drm.ParamVRAMBase, drm.ParamSystemBase:
		v += shift
	case drm.ParamVRAMSize, drm.ParamSystemSize:
		v -= shift
	}
	return v, err
}

// ChannelAlloc leaves a number out.
func (e *elsewhere) ChannelAlloc() (uint32, error) {
	if _, err := e.Driver.ChannelAlloc(); err != nil {
		return 0, err
	}
	return e.Driver.ChannelAlloc()
}

// GemNew leaves one out, too.
func (e *elsewhere) GemNew(size uint64, d drm.Domain, flags drm.GemFlags) (uint32, error) {
	if h, err := e.Driver.GemNew(size, d, flags); err != nil {
		return h, err
	}
	return e.Driver.GemNew(size, d, flags)
}

// SyncobjCreate leaves one out, too.
func (e *elsewhere) SyncobjCreate(signaled bool) (uint32, error) {
	if h, err := e.Driver.SyncobjCreate(signaled); err != nil {
		return h, err
	}
	return e.Driver.SyncobjCreate(signaled)
}
