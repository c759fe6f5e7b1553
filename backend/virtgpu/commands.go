package virtgpu

import (
	"pvdrm/backend/vhostuser"
)

// request is a command of the guest while it runs.
type request struct {
	header
	chain  *vhostuser.Chain // what follows the fixed part is read from here
	held   bool             // somebody will complete the chain later
	moment *moment          // of a fenced command
	buf    [maxBody]byte
}

// maxBody is the size of the largest fixed part of a command after its header.
const maxBody = 72

// command is one row of the table of commands. run gets the fixed part that
// follows the header, and returns what follows the header of the answer.
type command struct {
	name  string
	queue int
	size  int    // bytes of the fixed part
	resp  uint32 // type of the answer when all went well
	is3D  bool   // only with VIRTIO_GPU_F_VIRGL
	run   func(d *Device, r *request, body []byte) ([]byte, error)
}

// commands has every command that is understood, by type.
var commands = map[uint32]command{
	cmdGetDisplayInfo:     {"GET_DISPLAY_INFO", controlQueue, 0, respDisplayInfo, false, (*Device).getDisplayInfo},
	cmdResourceCreate2D:   {"RESOURCE_CREATE_2D", controlQueue, 16, respOK, false, (*Device).create2D},
	cmdResourceUnref:      {"RESOURCE_UNREF", controlQueue, 8, respOK, false, (*Device).unref},
	cmdSetScanout:         {"SET_SCANOUT", controlQueue, 24, respOK, false, (*Device).setScanout},
	cmdResourceFlush:      {"RESOURCE_FLUSH", controlQueue, 24, respOK, false, (*Device).flush},
	cmdTransferToHost2D:   {"TRANSFER_TO_HOST_2D", controlQueue, 32, respOK, false, (*Device).transfer2D},
	cmdAttachBacking:      {"RESOURCE_ATTACH_BACKING", controlQueue, 8, respOK, false, (*Device).attachBacking},
	cmdDetachBacking:      {"RESOURCE_DETACH_BACKING", controlQueue, 8, respOK, false, (*Device).detachBacking},
	cmdGetCapsetInfo:      {"GET_CAPSET_INFO", controlQueue, 8, respCapsetInfo, true, (*Device).getCapsetInfo},
	cmdGetCapset:          {"GET_CAPSET", controlQueue, 8, respCapset, true, (*Device).getCapset},
	cmdGetEDID:            {"GET_EDID", controlQueue, 8, respEDID, false, (*Device).getEDID},
	cmdCtxCreate:          {"CTX_CREATE", controlQueue, 72, respOK, true, (*Device).ctxCreate},
	cmdCtxDestroy:         {"CTX_DESTROY", controlQueue, 0, respOK, true, (*Device).ctxDestroy},
	cmdCtxAttachResource:  {"CTX_ATTACH_RESOURCE", controlQueue, 8, respOK, true, (*Device).ctxAttach},
	cmdCtxDetachResource:  {"CTX_DETACH_RESOURCE", controlQueue, 8, respOK, true, (*Device).ctxDetach},
	cmdResourceCreate3D:   {"RESOURCE_CREATE_3D", controlQueue, 48, respOK, true, (*Device).create3D},
	cmdTransferToHost3D:   {"TRANSFER_TO_HOST_3D", controlQueue, 48, respOK, true, (*Device).transfer3D},
	cmdTransferFromHost3D: {"TRANSFER_FROM_HOST_3D", controlQueue, 48, respOK, true, (*Device).transfer3D},
	cmdSubmit3D:           {"SUBMIT_3D", controlQueue, 8, respOK, true, (*Device).submit},
	cmdUpdateCursor:       {"UPDATE_CURSOR", cursorQueue, 32, respOK, false, (*Device).updateCursor},
	cmdMoveCursor:         {"MOVE_CURSOR", cursorQueue, 32, respOK, false, (*Device).moveCursor},
}
