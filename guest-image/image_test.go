package guestimage

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"
	"github.com/u-root/u-root/pkg/cpio"
	"golang.org/x/sys/unix"
)

// archive is a Debian archive with a fake apt in front, which is found first in PATH. Every call of
// apt appends to a log.
type archive struct {
	dir   string
	cache string
}

// executable is an ELF file that passes for a static program.
var executable = func() []byte {
	b := makeModule("x")
	b[16] = 2 // ET_EXEC
	return b
}()

func newArchive(t *testing.T) *archive {
	a := &archive{dir: t.TempDir(), cache: t.TempDir()}
	bin := filepath.Join(a.dir, "bin")
	require.NoError(t, os.Mkdir(bin, 0o755))
	// Both get options, the command, its options and then packages.
	a.script(t, "apt-cache", `while [ "$1" != --no-all-versions ]; do shift; done; shift
for p; do cat "$ARCHIVE/${p%%=*}.show" 2>/dev/null || exit 100; echo; done`)
	a.script(t, "apt-get", `
case "$*" in
*download*) while [ "$1" != download ]; do shift; done; shift
	for p; do cp "$ARCHIVE/${p%%=*}.deb" "${p%%=*}_1_amd64.deb" || { echo "E: Failed to fetch" >&2; exit 100; }; done ;;
*simulate*) cat "$ARCHIVE/closure" ;;
*update*) mv "$ARCHIVE/later/"* "$ARCHIVE" || exit 100 ;;
esac`)
	t.Setenv("PATH", bin+":/usr/bin:/bin")
	t.Setenv("ARCHIVE", a.dir)
	t.Setenv(guestDirEnv, filepath.Join(a.dir, "guest"))
	require.NoError(t, os.Mkdir(filepath.Join(a.dir, "guest"), 0o755))
	a.program(t, initProgram, "init")
	a.publish(t, "1.0", "busybox")
	return a
}

func (a *archive) script(t *testing.T, name, body string) {
	text := "#!/bin/sh\necho " + name + " \"$@\" >> \"$ARCHIVE/log\"\n" + body + "\n"
	require.NoError(t, os.WriteFile(filepath.Join(a.dir, "bin", name), []byte(text), 0o755))
}

// program puts a guest program where it is looked for.
func (a *archive) program(t *testing.T, name, content string) {
	b := append(bytes.Clone(executable), content...)
	require.NoError(t, os.WriteFile(filepath.Join(a.dir, "guest", name), b, 0o755))
}

// kernelFile and moduleFiles are the files of a kernel's packages.
func kernelFile(release string) file {
	version, _, _ := strings.Cut(release, "-")
	return file{"./boot/vmlinuz-" + release, string(bzImage([]byte("not really a kernel " + version)))}
}

func moduleFiles(release string) (files []file) {
	for _, m := range []struct{ name, depends string }{{"virtio", ""}, {"virtio_ring", "virtio"}, {"virtio_pci", "virtio,virtio_ring"},
		{"virtio_console", "virtio"}, {"drm", ""}, {"virtio-gpu", "drm,virtio,builtin_thing"}, {"virtio_blk", "virtio"}, {"crc32c_generic", ""}, {"erofs", ""}, {"virtio_input", "virtio"}, {"evdev", ""}, {"9pnet_virtio", "virtio"}, {"9p", ""}, {"unrelated", "also_unrelated"}} {
		files = append(files, file{"./lib/modules/" + release + "/kernel/" + m.name + ".ko", string(makeModule("depends=" + m.depends + "\x00"))})
	}
	return append(files, file{"./lib/modules/" + release + "/modules.builtin", "kernel/lib/builtin-thing.ko\n"})
}

// publish makes a kernel version the suite's current one.
func (a *archive) publish(t *testing.T, version, shell string) {
	release := version + "-amd64"
	a.add(t, "linux-image-"+release, version, makeDeb(t, ".xz", append(moduleFiles(release), kernelFile(release))...))
	a.write(t, kernelMetas[0]+".show", "Package: "+kernelMetas[0]+"\nVersion: "+version+"\nDepends: linux-image-"+release+" (= "+version+"), other\n\nPackage: older\n")
	a.add(t, shellPackage, "1", makeDeb(t, ".gz", file{"./bin/busybox", string(append(bytes.Clone(executable), shell...))}))
	// What apt knows has changed: the stamp must notice, as it does where the index is apt's own.
	require.NoError(t, os.RemoveAll(filepath.Join(a.cache, "resolved.json")))
}

func (a *archive) add(t *testing.T, name, version string, deb []byte) {
	sum := sha256.Sum256(deb)
	a.write(t, name+".deb", string(deb))
	a.write(t, name+".show", fmt.Sprintf("Package: %s\nVersion: %s\nDescription: text\n more: text\nSize: %d\nSHA256: %s\n", name, version, len(deb), hex.EncodeToString(sum[:])))
}

func (a *archive) write(t *testing.T, name, text string) {
	require.NoError(t, os.WriteFile(filepath.Join(a.dir, name), []byte(text), 0o644))
}

// asked returns and forgets what apt was asked.
func (a *archive) asked(t *testing.T) string {
	b, err := os.ReadFile(filepath.Join(a.dir, "log"))
	if os.IsNotExist(err) {
		return ""
	}
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(a.dir, "log")))
	return string(b)
}

func (a *archive) config(programs ...string) Config {
	cfg := Config{CacheDir: a.cache}
	for _, p := range programs {
		cfg.Programs = append(cfg.Programs, Program{Name: p})
	}
	return cfg
}

// unpack returns an initramfs by path.
func unpack(t *testing.T, initrd string) map[string]cpio.Record {
	b, err := os.ReadFile(initrd)
	require.NoError(t, err)
	z, err := gzip.NewReader(bytes.NewReader(b))
	require.NoError(t, err)
	var plain bytes.Buffer
	_, err = plain.ReadFrom(z)
	require.NoError(t, err)
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(plain.Bytes())))
	require.NoError(t, err)
	m := map[string]cpio.Record{}
	for _, r := range records {
		m[r.Name] = r
	}
	return m
}

func text(t *testing.T, r cpio.Record) string {
	b := make([]byte, r.FileSize)
	_, err := r.ReadAt(b, 0)
	require.NoError(t, err)
	return string(b)
}

func TestBuild(t *testing.T) {
	a := newArchive(t)
	a.program(t, "tool", "a tool")
	image, err := Build(t.Context(), a.config("tool"))
	require.NoError(t, err)
	require.Equal(t, "1.0-amd64", image.Release)
	kernel, err := os.ReadFile(image.Kernel)
	require.NoError(t, err)
	require.Contains(t, string(kernel), "not really a kernel 1.0", "what cannot be unpacked is booted as it is")
	require.Equal(t, image.Vmlinuz, image.Kernel)

	m := unpack(t, image.Initrd)
	require.True(t, strings.HasSuffix(text(t, m["init"]), "init"))
	require.Equal(t, uint64(unix.S_IFREG|0o755), m["init"].Mode)
	require.True(t, strings.HasSuffix(text(t, m["bin/tool"]), "a tool"))
	require.Equal(t, "busybox", text(t, m["bin/sh"]))
	require.Equal(t, uint64(unix.S_IFLNK), m["bin/sh"].Mode&unix.S_IFMT)
	require.Equal(t, uint64(unix.S_IFCHR|0o600), m["dev/console"].Mode)
	require.NotContains(t, m, "bin/"+initProgram)
	require.Equal(t, "virtio.ko\nvirtio_ring.ko\nvirtio_pci.ko\nvirtio_console.ko\ndrm.ko\nvirtio_gpu.ko\n", text(t, m["lib/modules/order"]))
	for _, name := range strings.Fields(text(t, m["lib/modules/order"])) {
		require.Contains(t, m, "lib/modules/"+name)
	}
	require.NotContains(t, m, "lib/modules/unrelated.ko")
	for name, r := range m {
		if dir := filepath.Dir(name); dir != "." {
			require.Equal(t, uint64(unix.S_IFDIR), m[dir].Mode&unix.S_IFMT, "the directory of %s", name)
		}
		require.Zero(t, r.MTime)
		require.Zero(t, r.UID)
	}
}

// TestUbuntusKernel has the modules in a package of their own, compressed, without those that
// Linux no longer has.
func TestUbuntusKernel(t *testing.T) {
	a := newArchive(t)
	require.NoError(t, os.Remove(filepath.Join(a.dir, kernelMetas[0]+".show")))
	const release = "7.0.0-44-generic"
	modules := moduleFiles(release)
	for i, f := range modules {
		if strings.HasSuffix(f.name, ".ko") {
			z, err := zstd.NewWriter(nil)
			require.NoError(t, err)
			modules[i] = file{f.name + ".zst", string(z.EncodeAll([]byte(f.content), nil))}
		}
	}
	modules = slices.DeleteFunc(modules, func(f file) bool { return strings.Contains(f.name, oldCRC32C) })
	a.write(t, kernelMetas[1]+".show", "Package: "+kernelMetas[1]+"\nVersion: 7\nDepends: linux-image-"+release+"\n")
	a.add(t, "linux-image-"+release, "7", makeDeb(t, ".zst", kernelFile(release)))
	image := filepath.Join(a.dir, "linux-image-"+release+".show")
	text, err := os.ReadFile(image)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(image, append([]byte("Depends: kmod, linux-base (>= 4.5), linux-modules-"+release+"\n"), text...), 0o644))
	a.add(t, "linux-modules-"+release, "7", makeDeb(t, ".zst", modules...))

	built, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	require.Equal(t, release, built.Release)
	require.Contains(t, unpack(t, built.Initrd), "lib/modules/virtio_gpu.ko")
	a.asked(t)
	again, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	require.Equal(t, built, again)
	require.Empty(t, a.asked(t))
}

func TestBuildIsCachedAndKeyed(t *testing.T) {
	a := newArchive(t)
	first, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	require.Contains(t, a.asked(t), "download")

	again, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	require.Equal(t, first, again)
	require.Empty(t, a.asked(t), "nothing has changed, so nobody is asked")

	// Another init.
	a.program(t, initProgram, "another init")
	changed, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	require.NotEqual(t, first.Key, changed.Key)
	require.Equal(t, first.Kernel, changed.Kernel)
	require.Empty(t, a.asked(t))

	// A newer kernel.
	a.publish(t, "2.0", "busybox")
	newer, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	require.NotEqual(t, changed.Key, newer.Key)
	require.Equal(t, "2.0-amd64", newer.Release)
	require.NotContains(t, a.asked(t), "download "+shellPackage)

	// The first image again, by its inputs.
	a.program(t, initProgram, "init")
	a.publish(t, "1.0", "busybox")
	require.NoError(t, os.Remove(filepath.Join(a.dir, "linux-image-1.0-amd64.deb")))
	back, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	require.Equal(t, first, back)
}

func TestBuildIsReproducible(t *testing.T) {
	a := newArchive(t)
	first, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	a.cache = t.TempDir()
	second, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	require.Equal(t, first.Key, second.Key)
	x, err := os.ReadFile(first.Initrd)
	require.NoError(t, err)
	y, err := os.ReadFile(second.Initrd)
	require.NoError(t, err)
	require.True(t, bytes.Equal(x, y))
}

func TestConcurrentBuilders(t *testing.T) {
	a := newArchive(t)
	var wg sync.WaitGroup
	var images [4]Image
	var errs [4]error
	for i := range images {
		wg.Go(func() { images[i], errs[i] = Build(t.Context(), a.config()) })
	}
	wg.Wait()
	for i := range images {
		require.NoError(t, errs[i])
		require.Equal(t, images[0], images[i])
	}
	require.Equal(t, 1, strings.Count(a.asked(t), "download linux-image-1.0-amd64=1.0\n"))
}

func TestWaitingForTheLockEndsWithItsContext(t *testing.T) {
	a := newArchive(t)
	b, err := newBuilder(a.config())
	require.NoError(t, err)
	unlock, err := b.lock(t.Context())
	require.NoError(t, err)
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cfg := a.config()
	cfg.Progress = func(string) { cancel() } // it says that it waits
	_, err = Build(ctx, cfg)
	require.ErrorIs(t, err, context.Canceled)
}

func TestKilledBuildersLeaveNothing(t *testing.T) {
	a := newArchive(t)
	for _, d := range []string{"", "image", "deb"} {
		require.NoError(t, os.MkdirAll(filepath.Join(a.cache, d, newDirPrefix+"123", "x"), 0o755))
	}
	_, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	for _, d := range []string{"", "image", "deb"} {
		left, err := filepath.Glob(filepath.Join(a.cache, d, ".*"))
		require.NoError(t, err)
		require.Empty(t, left)
	}
}

func TestHostWithoutPackageIndex(t *testing.T) {
	a := newArchive(t)
	later := filepath.Join(a.dir, "later")
	require.NoError(t, os.Mkdir(later, 0o755))
	shows, err := filepath.Glob(filepath.Join(a.dir, "*.show"))
	require.NoError(t, err)
	for _, s := range shows {
		require.NoError(t, os.Rename(s, filepath.Join(later, filepath.Base(s))))
	}
	_, err = Build(t.Context(), a.config())
	require.NoError(t, err)
	log := a.asked(t)
	require.Contains(t, log, "Dir::State::lists="+filepath.Join(a.cache, "apt", "lists"), "an index of our own")
	require.Contains(t, log, " update\n")
	require.NoDirExists(t, filepath.Join(a.cache, "apt"))
}

// TestHostWithOldPackageIndex has an index that names a version which the mirrors no longer have.
func TestHostWithOldPackageIndex(t *testing.T) {
	a := newArchive(t)
	later := filepath.Join(a.dir, "later")
	require.NoError(t, os.Mkdir(later, 0o755))
	a.publish(t, "2.0", "busybox")
	for _, name := range []string{kernelMetas[0] + ".show", "linux-image-2.0-amd64.show", "linux-image-2.0-amd64.deb"} {
		require.NoError(t, os.Rename(filepath.Join(a.dir, name), filepath.Join(later, name)))
	}
	a.publish(t, "1.0", "busybox")
	require.NoError(t, os.Remove(filepath.Join(a.dir, "linux-image-1.0-amd64.deb")))
	image, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	require.Equal(t, "2.0-amd64", image.Release)
	a.asked(t)
	again, err := Build(t.Context(), a.config())
	require.NoError(t, err)
	require.Equal(t, image, again)
	require.Empty(t, a.asked(t))
}

func TestBuildErrors(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(t *testing.T, a *archive, cfg *Config)
		want  string
	}{
		"no apt": {func(t *testing.T, a *archive, _ *Config) {
			t.Setenv("PATH", t.TempDir())
		}, "needs apt"},
		"no network": {func(t *testing.T, a *archive, _ *Config) {
			require.NoError(t, os.Remove(filepath.Join(a.dir, "linux-image-1.0-amd64.deb")))
		}, "E: Failed to fetch"},
		"changed on its way": {func(t *testing.T, a *archive, _ *Config) {
			a.write(t, "linux-image-1.0-amd64.deb", "something else")
		}, "the package index says"},
		"strange dependency": {func(t *testing.T, a *archive, _ *Config) {
			a.write(t, kernelMetas[0]+".show", "Package: x\nDepends: other (>= 1.0)\n")
		}, "cannot read the dependency"},
		"description without hash": {func(t *testing.T, a *archive, _ *Config) {
			a.write(t, shellPackage+".show", "Package: "+shellPackage+"\nVersion: 1\nSize: 5\n")
		}, "no full description"},
		"unknown package": {func(t *testing.T, a *archive, _ *Config) {
			require.NoError(t, os.Remove(filepath.Join(a.dir, shellPackage+".show")))
		}, shellPackage + ": not in the package index"},
		"module that does not exist": {func(t *testing.T, a *archive, cfg *Config) {
			cfg.Modules = []string{"no_such"}
		}, "module no_such: the kernel package 1.0-amd64 does not have it"},
		"program without a place": {func(t *testing.T, a *archive, cfg *Config) {
			cfg.Programs = []Program{{Name: "../x"}}
		}, "no name for a guest program"},
		"program twice": {func(t *testing.T, a *archive, cfg *Config) {
			cfg.Programs = []Program{{Name: initProgram}}
		}, "two guest programs"},
		"program that is a script": {func(t *testing.T, a *archive, cfg *Config) {
			path := filepath.Join(a.dir, "script")
			a.write(t, "script", "#!/bin/sh\n")
			cfg.Programs = []Program{{Name: "s", Path: path}}
		}, "not an ELF executable"},
		"program for another machine": {func(t *testing.T, a *archive, cfg *Config) {
			b := bytes.Clone(executable)
			b[18] = byte(183) // EM_AARCH64
			a.write(t, "arm", string(b))
			cfg.Programs = []Program{{Name: "s", Path: filepath.Join(a.dir, "arm")}}
		}, "not an executable for x86-64"},
		"dynamic program": {func(t *testing.T, a *archive, cfg *Config) {
			cfg.Programs = []Program{{Name: "s", Path: "/bin/sh"}}
		}, "dynamically linked"},
	} {
		t.Run(name, func(t *testing.T) {
			a := newArchive(t)
			cfg := a.config()
			tc.spoil(t, a, &cfg)
			_, err := Build(t.Context(), cfg)
			require.ErrorContains(t, err, tc.want)
			require.ErrorContains(t, err, "guest image: ")
			left, err := filepath.Glob(filepath.Join(a.cache, "*", ".*"))
			require.NoError(t, err)
			require.Empty(t, left)
			if left, err = filepath.Glob(filepath.Join(a.cache, ".*")); err == nil {
				require.Empty(t, left)
			}
		})
	}
}

// TestProgramFromSource builds init from this source tree.
func TestProgramFromSource(t *testing.T) {
	t.Setenv(guestDirEnv, "")
	dir := t.TempDir()
	path, err := locate(t.Context(), Program{Name: initProgram}, dir)
	require.NoError(t, err)
	require.Equal(t, filepath.Join(dir, initProgram), path)
	_, err = readProgram(path, false)
	require.NoError(t, err)

	_, err = locate(t.Context(), Program{Name: "no-such-program"}, dir)
	require.ErrorContains(t, err, "build guest program no-such-program")

	t.Chdir(t.TempDir())
	_, err = locate(t.Context(), Program{Name: initProgram}, dir)
	require.ErrorContains(t, err, "make build")
}

func TestPrune(t *testing.T) {
	a := newArchive(t)
	b, err := newBuilder(a.config())
	require.NoError(t, err)
	dir := filepath.Join(a.cache, "image")
	old := []unix.Timeval{{Sec: 1000}, {Sec: 1000}}
	for i := range 10 {
		d := filepath.Join(dir, fmt.Sprint(i))
		require.NoError(t, os.MkdirAll(d, 0o755))
		if i < 6 {
			old[1].Sec = int64(1000 + i)
			require.NoError(t, unix.Utimes(d, old))
		}
	}
	b.prune(dir, 5)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{"5", "6", "7", "8", "9"}, names, "the last used stay")
	b.prune(dir, 1)
	entries, err = os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 4, "what was just used stays in any case")
}

// The shell's package has its file in /bin on Debian 12 and in /usr/bin on Debian 13.
func TestExtractFileFindsEitherName(t *testing.T) {
	for _, name := range []string{"./bin/busybox", "./usr/bin/busybox"} {
		deb, to := filepath.Join(t.TempDir(), "shell.deb"), filepath.Join(t.TempDir(), "shell")
		require.NoError(t, os.WriteFile(deb, makeDeb(t, ".gz", file{name, "the shell"}), 0o644))
		require.NoError(t, extractFile(deb, to, "bin/busybox", "usr/bin/busybox"))
		got, err := os.ReadFile(to)
		require.NoError(t, err)
		require.Equal(t, "the shell", string(got))
		require.ErrorContains(t, extractFile(deb, to, "bin/sh", "usr/bin/sh"), "find bin/sh or usr/bin/sh in shell.deb")
	}
}
