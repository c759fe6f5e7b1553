package drm

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// headerStructs are the structs of the C headers, by what is their form here.
var headerStructs = map[string]any{
	"drm_version": Version{}, "drm_gem_close": GemClose{}, "drm_get_cap": GetCap{}, "drm_prime_handle": PrimeHandle{},
	"drm_syncobj_create": SyncobjCreate{}, "drm_syncobj_destroy": SyncobjDestroy{}, "drm_syncobj_wait": SyncobjWait{}, "drm_syncobj_array": SyncobjArray{},
	"drm_pvdrm_getparam": GetParam{}, "drm_pvdrm_channel": Channel{}, "drm_pvdrm_gem_new": GemNew{}, "drm_pvdrm_gem_info": GemInfo{},
	"drm_pvdrm_gem_cpu_prep": GemCPUPrep{}, "drm_pvdrm_gem_cpu_fini": GemCPUFini{}, "drm_pvdrm_vm_bind_op": BindOp{}, "drm_pvdrm_vm_bind": VMBind{},
	"drm_pvdrm_exec": Exec{}, "drm_pvdrm_wait": Wait{}, "drm_pvdrm_module_load": ModuleLoad{}, "drm_pvdrm_module_unload": ModuleUnload{},
	"drm_pvdrm_function_param": FunctionParam{}, "drm_pvdrm_module_function": ModuleFunction{}, "drm_pvdrm_module_global": ModuleGlobal{},
	"drm_pvdrm_status": Status{}, "drm_pvdrm_read_output": ReadOutput{},
}

// headerFields are the fields whose names in drm.h are not ours in C's spelling.
var headerFields = map[string]string{
	"drm_version.major": "version_major", "drm_version.minor": "version_minor", "drm_version.patch": "version_patchlevel",
	"drm_syncobj_wait.timeout_ns": "timeout_nsec", "drm_syncobj_wait.deadline_ns": "deadline_nsec",
	"drm_syncobj_wait.count": "count_handles", "drm_syncobj_array.count": "count_handles",
}

// headerConstants are those of the headers, with our values.
var headerConstants = map[string]uint64{
	"PVDRM_DOMAIN_VRAM": uint64(DomainVRAM), "PVDRM_DOMAIN_SYSTEM": uint64(DomainSystem),
	"PVDRM_GEM_NO_SHARE": uint64(GemNoShare), "PVDRM_GEM_DIRTY": uint64(GemDirty), "PVDRM_CPU_PREP_NOWAIT": CPUPrepNoWait,
	"PVDRM_BIND_MAP": BindMap, "PVDRM_BIND_UNMAP": BindUnmap, "PVDRM_BIND_READ_ONLY": BindReadOnly, "PVDRM_VM_BIND_ASYNC": VMBindAsync,
	"PVDRM_MAX_EXEC_BYTES": MaxExecBytes, "PVDRM_MAX_WAITS": MaxWaits, "PVDRM_MODULE_NAME_BYTES": ModuleNameBytes,
	"PVDRM_CMD_COPY": cmdCopy, "PVDRM_CMD_FILL": cmdFill, "PVDRM_CMD_LAUNCH": cmdLaunch, "PVDRM_CMD_TIMESTAMP": cmdTimestamp, "PVDRM_CMD_TASK": cmdTask, "PVDRM_CMD_COOPERATIVE": cmdTogether, "PVDRM_CMD_WORD": cmdWord, "PVDRM_CMD_CLUSTER": cmdCluster, "PVDRM_CMD_YIELDING": cmdYielding, "PVDRM_CMD_CALL": cmdCall, "PVDRM_MAX_INLINE_CALL": MaxInlineCall, "PVDRM_MAX_CALL": MaxCall,
	"sizeof(struct drm_pvdrm_cmd_copy)": copyBytes, "sizeof(struct drm_pvdrm_cmd_fill)": fillBytes,
	"sizeof(struct drm_pvdrm_cmd_launch)": launchBytes, "sizeof(struct drm_pvdrm_cmd_timestamp)": stampBytes,
	"DRM_CAP_DUMB_BUFFER": CapDumbBuffer, "DRM_CAP_PRIME": CapPrime, "DRM_CAP_TIMESTAMP_MONOTONIC": CapTimestampMono,
	"DRM_CAP_SYNCOBJ": CapSyncobj, "DRM_CAP_SYNCOBJ_TIMELINE": CapSyncobjTimeline,
	"DRM_PRIME_CAP_IMPORT": PrimeCapImport, "DRM_PRIME_CAP_EXPORT": PrimeCapExport, "DRM_SYNCOBJ_CREATE_SIGNALED": SyncobjCreateSignaled,
	"DRM_SYNCOBJ_WAIT_FLAGS_WAIT_ALL": SyncobjWaitAll, "DRM_SYNCOBJ_WAIT_FLAGS_WAIT_FOR_SUBMIT": SyncobjWaitForSubmit,
	"PVDRM_PARAM_COMPUTE_MAJOR": uint64(ParamComputeMajor), "PVDRM_PARAM_WARP_SIZE": uint64(ParamWarpSize), "PVDRM_PARAM_MAX_GRID_Z": uint64(ParamMaxGridZ),
	"PVDRM_PARAM_CONST_BYTES": uint64(ParamConstBytes), "PVDRM_PARAM_VRAM_BYTES": uint64(ParamVRAMBytes), "PVDRM_PARAM_VRAM_BASE": uint64(ParamVRAMBase),
	"PVDRM_PARAM_SYSTEM_BASE": uint64(ParamSystemBase), "PVDRM_PARAM_SYSTEM_PAGE": uint64(ParamSystemPage), "PVDRM_PARAM_VRAM_USED": uint64(ParamVRAMUsed),
	"PVDRM_PARAM_MAX_BLOCKS_SM": uint64(ParamMaxBlocksSM), "PVDRM_PARAM_DEVICE": uint64(ParamDevice), "PVDRM_PARAM_TEXTURES": uint64(ParamTextures), "PVDRM_PARAM_COOPERATIVE": uint64(ParamCooperative), "PVDRM_PARAM_WORDS": uint64(ParamWords), "PVDRM_PARAM_SHARES": uint64(ParamShares), "PVDRM_PARAM_MAX_CLUSTER": uint64(ParamMaxCluster), "PVDRM_PARAM_IMAGES": uint64(ParamImages), "PVDRM_PARAM_LIBRARIES": uint64(ParamLibraries), "PVDRM_PARAM_PEERS": uint64(ParamPeers),
}

var (
	wordStart  = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	defined    = regexp.MustCompile(`(?m)^#define ((?:PVDRM|DRM)_[A-Z0-9_]+) +[0-9(]`)
	declared   = regexp.MustCompile(`(?m)^struct (drm_[a-z0-9_]+) \{`)
	ioctlNames = regexp.MustCompile(`(?m)^#define DRM_IOCTL_([A-Z0-9_]+) `)
)

// inC is a name of ours in C's spelling.
func inC(name string) string {
	name = strings.NewReplacer("BOOffset", "BoOffset", "FD", "Fd", "TimeoutNS", "TimeoutNs", "DeadlineNS", "DeadlineNs").Replace(name)
	return strings.ToLower(wordStart.ReplaceAllString(name, "${1}_$2"))
}

// The C headers say what this package says: a program of nothing but assertions
// about them compiles, as C and as C++.
func TestHeaders(t *testing.T) {
	const dir = "../include/uapi"
	var text strings.Builder
	for _, name := range []string{"drm_core.h", "pvdrm_drm.h"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		text.Write(b)
	}
	var src strings.Builder
	src.WriteString("#include \"drm_core.h\"\n#include \"pvdrm_drm.h\"\n#include <assert.h>\n#include <stddef.h>\n")
	demand := func(format string, args ...any) {
		what := fmt.Sprintf(format, args...)
		fmt.Fprintf(&src, "static_assert(%s, %q);\n", what, what)
	}
	for name, value := range headerStructs {
		typ := reflect.TypeOf(value)
		demand("sizeof(struct %s) == %d", name, typ.Size())
		for i := 1; i < typ.NumField(); i++ {
			f := typ.Field(i)
			if f.Name == "_" {
				continue
			}
			field := inC(f.Name)
			if other, ok := headerFields[name+"."+field]; ok {
				field = other
			}
			demand("offsetof(struct %s, %s) == %d", name, field, f.Offset)
			demand("sizeof(((struct %s *)0)->%s) == %d", name, field, f.Type.Size())
		}
	}
	for _, e := range Table {
		demand("DRM_IOCTL_%s == 0x%xul", e.Name, uint32(e.Request))
	}
	for name, value := range headerConstants {
		demand("%s == %d", name, value)
	}
	for _, lang := range []string{"c", "c++"} {
		file := filepath.Join(t.TempDir(), "header")
		require.NoError(t, os.WriteFile(file, []byte(src.String()), 0o600))
		std := map[string]string{"c": "-std=c11", "c++": "-std=c++11"}[lang]
		out, err := exec.Command("gcc", "-x", lang, std, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-fsyntax-only", "-I"+dir, file).CombinedOutput()
		require.NoError(t, err, "%s: %s", lang, out)
	}

	// And nothing in them was left out here.
	for _, m := range declared.FindAllStringSubmatch(text.String(), -1) {
		if !strings.HasPrefix(m[1], "drm_pvdrm_cmd") {
			require.Contains(t, headerStructs, m[1])
		}
	}
	for _, m := range defined.FindAllStringSubmatch(text.String(), -1) {
		if m[1] != "PVDRM_COMMAND_BASE" && !strings.HasPrefix(m[1], "DRM_PVDRM_") { // they are in the ioctls' numbers
			require.Contains(t, headerConstants, m[1])
		}
	}
	require.Len(t, ioctlNames.FindAllString(text.String(), -1), len(Table))
}

// Offsets for mmap are told from others, and lead back to the object.
func TestMapOffsets(t *testing.T) {
	for _, handle := range []uint32{1, 2, 1<<14 - 1, 1<<16 - 1} {
		h, at, ok := MapHandle(MapOffset(handle) + 4096)
		require.True(t, ok)
		require.Equal(t, handle, h)
		require.EqualValues(t, 4096, at)
		require.Positive(t, int64(MapOffset(handle)), "an off_t")
	}
	for _, other := range []uint64{0, 4096, 1 << 40, MapBase - 1, MapBase | 1<<60 - 1<<44 + 1<<61, ^uint64(0)} {
		_, _, ok := MapHandle(other)
		require.False(t, ok, "%x", other)
	}
}
