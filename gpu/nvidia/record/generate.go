package main

import (
	"bytes"
	"fmt"
	"go/format"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Names that package cuda gives its processes, and the lists of what they may ask for.
var lists = []struct{ process, variable, text string }{
	{"cuda-worker", "servingRequests", "servingRequests are what a worker that serves a context asks for."},
	{"cuda-compiler", "compilingRequests", "compilingRequests are what a worker that compiles asks for."},
}

// names are those of NVIDIA's open kernel modules (nv_escape.h, uvm_ioctl.h, uvm_linux_ioctl.h).
var names = map[uint32]string{
	'F'<<8 | 0x27: "NV_ESC_RM_ALLOC_MEMORY", 'F'<<8 | 0x28: "NV_ESC_RM_ALLOC_OBJECT", 'F'<<8 | 0x29: "NV_ESC_RM_FREE",
	'F'<<8 | 0x2a: "NV_ESC_RM_CONTROL", 'F'<<8 | 0x2b: "NV_ESC_RM_ALLOC", 'F'<<8 | 0x34: "NV_ESC_RM_DUP_OBJECT",
	'F'<<8 | 0x35: "NV_ESC_RM_SHARE", 'F'<<8 | 0x41: "NV_ESC_RM_IDLE_CHANNELS", 'F'<<8 | 0x4a: "NV_ESC_RM_VID_HEAP_CONTROL",
	'F'<<8 | 0x4e: "NV_ESC_RM_MAP_MEMORY", 'F'<<8 | 0x4f: "NV_ESC_RM_UNMAP_MEMORY",
	'F'<<8 | 0x52: "NV_ESC_RM_GET_EVENT_DATA", 'F'<<8 | 0x54: "NV_ESC_RM_ALLOC_CONTEXT_DMA2",
	'F'<<8 | 0x57: "NV_ESC_RM_MAP_MEMORY_DMA", 'F'<<8 | 0x58: "NV_ESC_RM_UNMAP_MEMORY_DMA",
	'F'<<8 | 0x5e: "NV_ESC_RM_UPDATE_DEVICE_MAPPING_INFO",
	'F'<<8 | 0xc8: "NV_ESC_CARD_INFO", 'F'<<8 | 0xc9: "NV_ESC_REGISTER_FD", 'F'<<8 | 0xce: "NV_ESC_ALLOC_OS_EVENT",
	'F'<<8 | 0xcf: "NV_ESC_FREE_OS_EVENT", 'F'<<8 | 0xd2: "NV_ESC_CHECK_VERSION_STR", 'F'<<8 | 0xd3: "NV_ESC_IOCTL_XFER_CMD",
	'F'<<8 | 0xd4: "NV_ESC_ATTACH_GPUS_TO_FD", 'F'<<8 | 0xd6: "NV_ESC_SYS_PARAMS", 'F'<<8 | 0xd7: "NV_ESC_NUMA_INFO",
	'F'<<8 | 0xda: "NV_ESC_WAIT_OPEN_COMPLETE", 'F'<<8 | 0xdb: "NV_ESC_EXPORT_TO_DMABUF_FD",
	0x30000001: "UVM_INITIALIZE", 0x30000002: "UVM_DEINITIALIZE",
	23: "UVM_CREATE_RANGE_GROUP", 24: "UVM_DESTROY_RANGE_GROUP", 25: "UVM_REGISTER_GPU_VASPACE", 26: "UVM_UNREGISTER_GPU_VASPACE",
	27: "UVM_REGISTER_CHANNEL", 28: "UVM_UNREGISTER_CHANNEL", 29: "UVM_ENABLE_PEER_ACCESS", 30: "UVM_DISABLE_PEER_ACCESS",
	31: "UVM_SET_RANGE_GROUP", 33: "UVM_MAP_EXTERNAL_ALLOCATION", 34: "UVM_FREE", 35: "UVM_MEM_MAP", 37: "UVM_REGISTER_GPU",
	38: "UVM_UNREGISTER_GPU", 39: "UVM_PAGEABLE_MEM_ACCESS", 40: "UVM_PREVENT_MIGRATION_RANGE_GROUPS",
	41: "UVM_ALLOW_MIGRATION_RANGE_GROUPS", 42: "UVM_SET_PREFERRED_LOCATION", 43: "UVM_UNSET_PREFERRED_LOCATION",
	44: "UVM_ENABLE_READ_DUPLICATION", 45: "UVM_DISABLE_READ_DUPLICATION", 46: "UVM_SET_ACCESSED_BY", 47: "UVM_UNSET_ACCESSED_BY",
	51: "UVM_MIGRATE", 53: "UVM_MIGRATE_RANGE_GROUP", 62: "UVM_TOOLS_READ_PROCESS_MEMORY", 63: "UVM_TOOLS_WRITE_PROCESS_MEMORY",
	65: "UVM_MAP_DYNAMIC_PARALLELISM_REGION", 66: "UVM_UNMAP_EXTERNAL", 68: "UVM_ALLOC_SEMAPHORE_POOL",
	70: "UVM_PAGEABLE_MEM_ACCESS_ON_GPU", 72: "UVM_VALIDATE_VA_RANGE", 73: "UVM_CREATE_EXTERNAL_RANGE",
	74: "UVM_MAP_EXTERNAL_SPARSE", 75: "UVM_MM_INITIALIZE",
}

// controlNames are those of NVIDIA's open kernel modules (ctrl*.h), as far as known.
var controlNames = map[uint32]string{
	0x2080012f: "NV2080_CTRL_CMD_GPU_QUERY_ECC_STATUS",
	0x20801702: "NV2080_CTRL_CMD_MC_SERVICE_INTERRUPTS",
	0x20800110: "NV2080_CTRL_CMD_GPU_GET_NAME_STRING",
	0x20801303: "NV2080_CTRL_CMD_FB_GET_INFO_V2",
	0x503c0104: "NV503C_CTRL_CMD_REGISTER_VIDMEM",
	// NVIDIA's headers name the group of these, and no command in it.
	0x20809001: "NV2080_CTRL_CLK_LEGACY_NON_PRIVILEGED, 1",
	0x20809009: "NV2080_CTRL_CLK_LEGACY_NON_PRIVILEGED, 9",
	0x20809064: "NV2080_CTRL_CLK_LEGACY_NON_PRIVILEGED, 0x64",
	0x2080a026: "NV2080_CTRL_PERF_LEGACY_NON_PRIVILEGED, 0x26",
	0x2080a084: "NV2080_CTRL_PERF_LEGACY_NON_PRIVILEGED, 0x84",
	0x83de030c: "NV83DE_CTRL_CMD_DEBUG_READ_ALL_SM_ERROR_STATES",
	0x83de0310: "NV83DE_CTRL_CMD_DEBUG_CLEAR_ALL_SM_ERROR_STATES",
	0x906f0102: "NV906F_CTRL_CMD_RESET_CHANNEL",
}

// never are requests that no worker may have while it serves: each would go round the filter or
// give what belongs to one process to another.
var never = map[uint32]string{
	'F'<<8 | 0xd3: "carries any other request, which a filter cannot see",
	'F'<<8 | 0x34: "takes an object of another client",
	'F'<<8 | 0x35: "gives an object to other clients",
	'F'<<8 | 0xdb: "makes a descriptor of memory",
	62:            "reads the memory of another process",
	63:            "writes the memory of another process",
}

// Requests that stand for many: NV_ESC_RM_CONTROL and NV_ESC_RM_ALLOC.
const (
	control  = 'F'<<8 | 0x2a
	allocate = 'F'<<8 | 0x2b
)

// memoryClasses are the classes of objects that a worker may make while it serves: memory, by which
// it can neither run anything nor stop others. Channels are not among them, so its keeper knows all.
var memoryClasses = map[uint32]string{
	0x40: "NV01_MEMORY_LOCAL_USER",
}

// neverControls are those that no worker may have.
var neverControls = map[uint32]string{
	0x2080110b: "stops channels of any client (NV2080_CTRL_CMD_FIFO_DISABLE_CHANNELS)",
	0xa06c0103: "lengthens time slices (NVA06C_CTRL_CMD_SET_TIMESLICE)",
	0x3d05:     "makes a descriptor of an object (NV0000_CTRL_CMD_OS_UNIX_EXPORT_OBJECT_TO_FD)",
	0x3d06:     "takes an object from a descriptor (NV0000_CTRL_CMD_OS_UNIX_IMPORT_OBJECT_FROM_FD)",
}

// pattern is what a filter compares: NVIDIA's devices look at type and number, and the size of
// the argument differs between drivers; UVM's requests are plain numbers.
func pattern(request uint32) (mask, value uint32) {
	if request&0xff00 == 'F'<<8 {
		return typeAndNumber, request & typeAndNumber
	}
	return ^uint32(0), request
}

// generate makes Go source of a table.
func generate(table string) ([]byte, error) {
	seen := map[string]map[[2]uint32]bool{} // mask and value, by process
	controls, classes := map[uint32]bool{}, map[uint32]bool{}
	var facts []string
	for line := range strings.Lines(table) {
		line = strings.TrimSpace(line)
		if fact, ok := strings.CutPrefix(line, "# "); ok {
			facts = append(facts, fact)
		}
		if line == "" || line[0] == '#' {
			continue
		}
		f := strings.Fields(line)
		if len(f) != 6 {
			return nil, fmt.Errorf("%q has %d fields, not 6", line, len(f))
		}
		request, err := strconv.ParseUint(f[3], 0, 32)
		if err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		if f[1] != phaseServe {
			continue
		}
		mask, value := pattern(uint32(request))
		if value == control || value == allocate {
			if f[0] != lists[0].process {
				return nil, fmt.Errorf("%s was seen to ask for %s while it serves: its keeper answers none", f[0], names[value])
			}
			detail, err := strconv.ParseUint(f[4], 0, 32)
			if err != nil {
				return nil, fmt.Errorf("%q: %w", line, err)
			}
			if err := answered(f[0], value, uint32(detail)); err != nil {
				return nil, err
			}
			if value == control {
				controls[uint32(detail)] = true
			} else {
				classes[uint32(detail)] = true
			}
		}
		// NVIDIA's devices look at the number alone, so that one of UVM's may mean something else there.
		if _, bad := names['F'<<8|value]; bad && mask == ^uint32(0) {
			return nil, fmt.Errorf("%s of %s has the number of %s: decide what to do about it", names[value], f[0], names['F'<<8|value])
		}
		if why, bad := never[value]; bad {
			return nil, fmt.Errorf("%s was seen to ask for %s while it serves, which %s: decide what to do about it", f[0], names[value], why)
		}
		if seen[f[0]] == nil {
			seen[f[0]] = map[[2]uint32]bool{}
		}
		seen[f[0]][[2]uint32{mask, value}] = true
	}
	var b bytes.Buffer
	b.WriteString("// Code generated by gpu/nvidia/record from testdata/ioctls.txt; DO NOT EDIT.\n\npackage nvidia\n\n")
	for _, l := range lists {
		fmt.Fprintf(&b, "// %s\n//\n", l.text)
		for _, fact := range facts[1:max(1, len(facts)-1)] {
			fmt.Fprintf(&b, "//\t%s\n", fact)
		}
		fmt.Fprintf(&b, "var %s = []Request{\n", l.variable)
		for _, r := range slices.SortedFunc(maps.Keys(seen[l.process]), func(a, b [2]uint32) int { return slices.Compare(a[:], b[:]) }) {
			fmt.Fprintf(&b, "{Mask: %#x, Value: %#x}, // %s\n", r[0], r[1], names[r[1]])
		}
		b.WriteString("}\n\n")
	}
	b.WriteString("// servingControls are the RM controls among those: the commands of NV_ESC_RM_CONTROL.\nvar servingControls = []uint32{\n")
	for _, c := range slices.Sorted(maps.Keys(controls)) {
		fmt.Fprintf(&b, "%#x, // %s\n", c, controlNames[c])
	}
	b.WriteString("}\n\n// servingClasses are the classes of objects that a worker makes while it serves, by NV_ESC_RM_ALLOC.\nvar servingClasses = []uint32{\n")
	for _, c := range slices.Sorted(maps.Keys(classes)) {
		fmt.Fprintf(&b, "%#x, // %s\n", c, memoryClasses[c])
	}
	b.WriteString("}\n")
	return format.Source(b.Bytes())
}

// answered reports an error if a keeper must not answer a control or allocation of a worker that
// serves.
func answered(process string, request, detail uint32) error {
	if request == allocate {
		if memoryClasses[detail] == "" {
			return fmt.Errorf("%s was seen to make an object of class %#x while it serves, which its keeper may not know: decide what to do about it", process, detail)
		}
		return nil
	}
	if why, bad := neverControls[detail]; bad {
		return fmt.Errorf("%s was seen to ask for RM control %#x while it serves, which %s: decide what to do about it", process, detail, why)
	}
	return nil
}
