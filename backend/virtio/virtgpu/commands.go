package virtgpu

import (
	"encoding/binary"

	"pvdrm/backend/virtio/vhostuser"
)

// request is a command of the guest, until it has run.
type request struct {
	header
	chain  *vhostuser.Chain // what follows the fixed part is read from here
	held   bool             // a function that later returned completes the chain
	moment *moment          // of a fenced command

	cmd     command
	body    [maxBody]byte // the fixed part
	claims  []claim       // contexts and resources that it is about
	ready   bool          // it waited, and may run
	rest    []byte        // of SUBMIT_3D: what follows the fixed part, once it was read
	backing *backing      // of RESOURCE_ATTACH_BACKING, as rest
}

// maxBody is the size of the largest fixed part of a command after its header.
const maxBody = 72

// use is how a command uses a context or a resource.
type use uint8

const (
	uses   use = iota + 1 // it must be there
	alters                // it begins, changes or ends
)

// about is what a command names.
type about struct {
	ctx      use // the context of the header
	resource use
	at       int // where in the fixed part the resource's id lies
}

// claims lists what a command needs. It needs a resource in a context alone, because whatever is
// about both may take the resource away, or must come before or after that. There is neither a
// context nor a resource 0.
func (a about) claims(r *request) (list []claim) {
	inCtx := a.ctx != 0 && r.ctx != 0
	if inCtx {
		list = append(list, claim{subject{ctx: r.ctx}, a.ctx == alters})
	}
	if a.resource == 0 {
		return list
	}
	if id := binary.LittleEndian.Uint32(r.body[a.at:]); id != 0 {
		list = append(list, claim{subject{resource: id}, a.resource == alters})
		if inCtx {
			list = append(list, claim{subject{r.ctx, id}, true})
		}
	}
	return list
}

// command is one row of the table of commands. run gets the fixed part that
// follows the header, and returns what follows the header of the answer.
type command struct {
	name  string
	queue int
	size  int    // bytes of the fixed part
	resp  uint32 // type of the answer when all went well
	is3D  bool   // only with VIRTIO_GPU_F_VIRGL
	about about
	run   func(d *Device, r *request, body []byte) ([]byte, error)
}

// The combinations that commands are about; most are about nothing.
var (
	aContext      = about{ctx: uses}
	wholeContext  = about{ctx: alters}
	wholeResource = about{resource: alters}
	inContext     = about{ctx: uses, resource: uses}
)

// commands has every command that the device understands, by type.
var commands = map[uint32]command{
	cmdGetDisplayInfo:     {name: "GET_DISPLAY_INFO", resp: respDisplayInfo, run: (*Device).getDisplayInfo},
	cmdResourceCreate2D:   {name: "RESOURCE_CREATE_2D", size: 16, resp: respOK, about: wholeResource, run: (*Device).create2D},
	cmdResourceUnref:      {name: "RESOURCE_UNREF", size: 8, resp: respOK, about: wholeResource, run: (*Device).unref},
	cmdSetScanout:         {name: "SET_SCANOUT", size: 24, resp: respOK, about: about{resource: uses, at: 20}, run: (*Device).setScanout},
	cmdResourceFlush:      {name: "RESOURCE_FLUSH", size: 24, resp: respOK, about: about{resource: uses, at: 16}, run: (*Device).flush},
	cmdTransferToHost2D:   {name: "TRANSFER_TO_HOST_2D", size: 32, resp: respOK, about: about{resource: uses, at: 24}, run: (*Device).transfer2D},
	cmdAttachBacking:      {name: "RESOURCE_ATTACH_BACKING", size: 8, resp: respOK, about: wholeResource, run: (*Device).attachBacking},
	cmdDetachBacking:      {name: "RESOURCE_DETACH_BACKING", size: 8, resp: respOK, about: wholeResource, run: (*Device).detachBacking},
	cmdGetCapsetInfo:      {name: "GET_CAPSET_INFO", size: 8, resp: respCapsetInfo, is3D: true, run: (*Device).getCapsetInfo},
	cmdGetCapset:          {name: "GET_CAPSET", size: 8, resp: respCapset, is3D: true, run: (*Device).getCapset},
	cmdGetEDID:            {name: "GET_EDID", size: 8, resp: respEDID, run: (*Device).getEDID},
	cmdCtxCreate:          {name: "CTX_CREATE", size: 72, resp: respOK, is3D: true, about: wholeContext, run: (*Device).ctxCreate},
	cmdCtxDestroy:         {name: "CTX_DESTROY", resp: respOK, is3D: true, about: wholeContext, run: (*Device).ctxDestroy},
	cmdCtxAttachResource:  {name: "CTX_ATTACH_RESOURCE", size: 8, resp: respOK, is3D: true, about: inContext, run: (*Device).ctxAttach},
	cmdCtxDetachResource:  {name: "CTX_DETACH_RESOURCE", size: 8, resp: respOK, is3D: true, about: inContext, run: (*Device).ctxDetach},
	cmdResourceCreate3D:   {name: "RESOURCE_CREATE_3D", size: 48, resp: respOK, is3D: true, about: wholeResource, run: (*Device).create3D},
	cmdTransferToHost3D:   {name: "TRANSFER_TO_HOST_3D", size: 48, resp: respOK, is3D: true, about: about{ctx: uses, resource: uses, at: 32}, run: (*Device).transfer3D},
	cmdTransferFromHost3D: {name: "TRANSFER_FROM_HOST_3D", size: 48, resp: respOK, is3D: true, about: about{ctx: uses, resource: uses, at: 32}, run: (*Device).transfer3D},
	cmdSubmit3D:           {name: "SUBMIT_3D", size: 8, resp: respOK, is3D: true, about: aContext, run: (*Device).submit},
	cmdUpdateCursor:       {name: "UPDATE_CURSOR", queue: cursorQueue, size: 32, resp: respOK, run: (*Device).updateCursor},
	cmdMoveCursor:         {name: "MOVE_CURSOR", queue: cursorQueue, size: 32, resp: respOK, run: (*Device).moveCursor},
}
