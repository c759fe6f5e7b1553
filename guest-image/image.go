// Package guestimage builds the bootable image of a PVDRM guest, as any user: the kernel of the host's
// own suite (Debian's or Ubuntu's) with the modules that a paravirtual GPU needs, and an initramfs with
// PVDRM's init, guest programs and a small shell. Other kinds of images (kind.go) have files of more
// packages, on a disk.
//
// # The cache
//
// Everything lies below one directory and is keyed by what it was made from, so that nothing is done
// twice and nothing stale is used:
//
//	resolved.json      which packages apt named last
//	deb/PKG_VER_SHA/   what was taken from a package: kernel and modules, the shell
//	deb/KIND_KEY/      the disk of a kind: what its packages brought
//	oci/DIGEST/        the disk of a container image
//	image/KEY/         initrd.gz and manifest.json
//	build/             guest programs built from the source tree
//	lock               held while any of these is written
//
// Every folder appears with all of its content or not at all; what a killed builder left is removed
// by the next one. Equal inputs give equal bytes.
package guestimage

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"pvdrm/guest-image/oci"
)

// format changes whenever this package makes another image of the same inputs.
const format = 4

// keepImages is how many images survive, the most recently used ones.
const keepImages = 4

// Config says what image is wanted.
type Config struct {
	// CacheDir holds all that is made; DefaultCacheDir where empty.
	CacheDir string
	// Programs are installed in the guest's /bin, beside init and the shell.
	Programs []Program
	// Kind is Base (where empty) or another of Kinds, or OCI with a container image after it.
	Kind string
	// Libraries are shared libraries, by path, that go where programs find them. Not in the base image.
	Libraries []string
	// Stubs are libraries, by path, in place of NVIDIA's: they go into guestinit.StubsDir beside Libraries.
	Stubs []string
	// Modules are kernel modules to be loaded beside those for virtio and the GPU.
	Modules []string
	// Shares says that the guest is to see directories of the host; an image of kind Root always is.
	Shares bool
	// Progress is told what takes long, one line at a time. May be nil.
	Progress func(line string)
}

// Image is a bootable image in the cache.
type Image struct {
	Kernel  string // what QEMU boots: an ELF kernel where Debian's could be unpacked, else Vmlinuz
	Vmlinuz string // the same kernel as Debian packs it, for other boot loaders
	Initrd  string // gzip-compressed initramfs
	Disk    string // what the guest reads as /dev/vda; empty where the kind has none
	Release string // of the kernel, as uname -r says
	Key     string // hash of all inputs, in hexadecimal
	Size    int64  // of Vmlinuz, Initrd and Disk in bytes

	Container oci.Config // of the container image that Disk is made of
}

// DefaultCacheDir returns $XDG_CACHE_HOME/pvdrm or ~/.cache/pvdrm, or ./.cache/pvdrm where there is
// no home.
func DefaultCacheDir() string {
	dir, err := os.UserCacheDir()
	if err != nil {
		dir = ".cache"
	}
	return filepath.Join(dir, "pvdrm")
}

// manifest records what an image was made from, for a person and for the key.
type manifest struct {
	Format   int
	Kernel   []debPackage
	Shell    debPackage
	Modules  []string          // asked for, not what they depend on
	Programs map[string]string // name → SHA256

	Kind      string            `json:",omitempty"` // not Base
	Packages  []debPackage      `json:",omitempty"` // of the kind
	Libraries map[string]string `json:",omitempty"` // name → SHA256
}

func (m manifest) key() (string, error) {
	b, err := json.Marshal(m)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16]), nil
}

// Build returns the image for cfg, making what the cache does not have. Several may build in one
// cache at once.
func Build(ctx context.Context, cfg Config) (Image, error) {
	b, err := newBuilder(cfg)
	if err != nil {
		return Image{}, fmt.Errorf("guest image: %w", err)
	}
	unlock, err := b.lock(ctx)
	if err != nil {
		return Image{}, fmt.Errorf("guest image: %w", err)
	}
	defer unlock()
	image, err := b.build(ctx)
	b.sweep() // apt's index is 26 MB, and out of date when it is next needed
	if err != nil {
		return Image{}, fmt.Errorf("guest image: %w", err)
	}
	return image, nil
}

type builder struct {
	dir       string
	programs  []Program
	modules   []string
	kind      kind
	libraries []string
	stubs     []string
	shares    bool
	apt       apt
	progress  func(string, ...any)
}

func newBuilder(cfg Config) (*builder, error) {
	dir := cfg.CacheDir
	if dir == "" {
		dir = DefaultCacheDir()
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	k, err := kindOf(cfg.Kind)
	if err != nil {
		return nil, err
	}
	b := &builder{dir: dir, kind: k, libraries: cfg.Libraries, stubs: cfg.Stubs, shares: cfg.Shares || k.ownRoot(), programs: append([]Program{{Name: initProgram}}, cfg.Programs...)}
	b.modules = append(append(b.modules, modulesWanted...), cfg.Modules...)
	b.progress = func(format string, args ...any) {
		if cfg.Progress != nil {
			cfg.Progress(fmt.Sprintf(format, args...))
		}
	}
	b.apt = apt{dir: dir, progress: b.progress}
	return b, os.MkdirAll(dir, 0o755)
}

// patience is how long a builder waits for another one before it tells the user. One that finds its image waits for less.
const patience = time.Second

// lock waits until no other builder uses the cache.
func (b *builder) lock(ctx context.Context) (unlock func(), err error) {
	f, err := os.OpenFile(filepath.Join(b.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return nil, err
	}
	began, said := time.Now(), false
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			return func() { f.Close() }, nil
		}
		if !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR) {
			f.Close()
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		if !said && time.Since(began) > patience {
			said = true
			b.progress("Waiting for another process that builds in %s", b.dir)
		}
		select {
		case <-ctx.Done():
			f.Close()
			return nil, ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (b *builder) build(ctx context.Context) (Image, error) {
	b.sweep()
	programs, sums, err := b.readPrograms(ctx)
	if err != nil {
		return Image{}, err
	}
	libraries, librarySums, err := b.readLibraries()
	if err != nil {
		return Image{}, err
	}
	d, err := b.packages(ctx)
	if err != nil {
		return Image{}, err
	}
	k := d.kernel
	m := manifest{Format: format, Kernel: d.kernelDebs, Shell: d.shellDeb, Modules: b.wanted(), Programs: sums}
	if b.kind.name != Base {
		m.Kind, m.Packages, m.Libraries = b.kind.name, d.diskDebs, librarySums
	}
	key, err := m.key()
	if err != nil {
		return Image{}, err
	}
	dir := filepath.Join(b.dir, "image", key)
	image := Image{Kernel: k.boot(), Vmlinuz: k.vmlinuz(), Initrd: filepath.Join(dir, "initrd.gz"), Release: k.release, Key: key}
	if _, err := os.Stat(dir); errors.Is(err, os.ErrNotExist) {
		b.progress("Building the guest image (Linux %s)", k.release)
		order, err := k.order(m.Modules)
		if err != nil {
			return Image{}, err
		}
		c := content{init: programs[initProgram], shell: d.shell, programs: programs, modules: order, libraries: libraries,
			module: func(name string) ([]byte, error) { return os.ReadFile(k.module(name)) }}
		delete(programs, initProgram)
		if d.disk != "" {
			links, err := os.ReadFile(filepath.Join(d.disk, diskLinks))
			if err != nil {
				return Image{}, fmt.Errorf("damaged cache, remove %s: %w", b.dir, err)
			}
			c.links = strings.Fields(string(links))
		}
		if err := replaceDir(dir, func(tmp string) error { return writeImage(tmp, m, c) }); err != nil {
			return Image{}, err
		}
	}
	files := []string{image.Vmlinuz, image.Initrd}
	if d.disk != "" {
		image.Disk = filepath.Join(d.disk, diskImage)
		files = append(files, image.Disk)
	}
	if b.kind.oci != "" {
		if image.Disk, image.Container, err = b.container(ctx); err != nil {
			return Image{}, err
		}
		files = append(files, image.Disk)
	}
	for _, f := range files {
		st, err := os.Stat(f)
		if err != nil {
			return Image{}, fmt.Errorf("damaged cache, remove %s: %w", b.dir, err)
		}
		image.Size += st.Size()
	}
	touch(dir)
	b.prune(filepath.Join(b.dir, "image"), keepImages)
	return image, nil
}

// writeImage fills the folder of an image.
func writeImage(dir string, m manifest, c content) error {
	text, err := json.MarshalIndent(m, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "manifest.json"), append(text, '\n'), 0o644); err != nil {
		return err
	}
	return c.writeFile(filepath.Join(dir, "initrd.gz"))
}

// touch notes that a folder is in use. Only the order of removal depends on it.
func touch(dir string) {
	now := time.Now()
	_ = os.Chtimes(dir, now, now)
}

// fromDebian is what an image has from Debian.
type fromDebian struct {
	kernelDebs []debPackage
	shellDeb   debPackage
	kernel     kernel
	shell      []byte // an executable
	diskDebs   []debPackage
	disk       string // the folder with the files of diskDebs; empty without
}

// packages returns what is needed from Debian, downloading what the cache does not have.
func (b *builder) packages(ctx context.Context) (d fromDebian, err error) {
	for {
		if d.kernelDebs, d.shellDeb, err = b.apt.resolveCached(ctx); err == nil {
			if d.kernel, err = b.kernel(ctx, d.kernelDebs); err == nil {
				d.shell, err = b.shell(ctx, d.shellDeb)
			}
		}
		if err == nil {
			if d.diskDebs, err = b.apt.closureCached(ctx, b.kind.packages); err == nil {
				d.disk, err = b.disk(ctx, d.diskDebs)
			}
		}
		if !errors.Is(err, errDownload) || b.apt.private || ctx.Err() != nil {
			return d, err
		}
		// The host's index may name what the mirrors no longer have.
		if b.apt.update(ctx) != nil {
			return d, err
		}
	}
}

func (b *builder) readPrograms(ctx context.Context) (contents map[string][]byte, sums map[string]string, err error) {
	contents, sums = map[string][]byte{}, map[string]string{}
	for _, p := range b.programs {
		if _, twice := contents[p.Name]; twice {
			return nil, nil, fmt.Errorf("two guest programs are called %s", p.Name)
		}
		path, err := locate(ctx, p, filepath.Join(b.dir, "build"))
		if err != nil {
			return nil, nil, err
		}
		if contents[p.Name], err = readProgram(path, b.kind.dynamic()); err != nil {
			return nil, nil, fmt.Errorf("guest program %s: %w", p.Name, err)
		}
		sum := sha256.Sum256(contents[p.Name])
		sums[p.Name] = hex.EncodeToString(sum[:])
	}
	return contents, sums, nil
}

// fromDeb returns the folder with what is taken from packages, filling it where it is missing. The
// first one names it.
func (b *builder) fromDeb(ctx context.Context, packages []debPackage, variant string, take func(debs []string, dir string) error) (string, error) {
	return b.fromDebs(ctx, packages, packages[0].id()+variant, func(debs []string, _, d string) error {
		b.progress("Unpacking %s", packages[0].Name)
		return take(debs, d)
	})
}

// fromDebs returns a folder with what take makes of packages, filling it where it is
// missing. tmp is a folder that goes away afterwards.
func (b *builder) fromDebs(ctx context.Context, packages []debPackage, name string, take func(debs []string, tmp, dir string) error) (string, error) {
	dir := filepath.Join(b.dir, "deb", name)
	if _, err := os.Stat(dir); err == nil {
		touch(dir)
		return dir, nil
	}
	tmp, err := os.MkdirTemp(b.dir, newDirPrefix)
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(tmp)
	debs, err := b.apt.download(ctx, packages, tmp)
	if err != nil {
		return "", err
	}
	return dir, replaceDir(dir, func(d string) error { return take(debs, tmp, d) })
}

// wanted are the modules that the image's kind asks for.
func (b *builder) wanted() []string {
	modules := slices.Clone(b.modules)
	if b.kind.disk() || b.kind.oci != "" {
		modules = slices.Concat(modules, diskModules, inputModules)
	}
	if b.shares {
		modules = append(modules, shareModules...)
	}
	return modules
}

// kernel returns the kernel with the modules that any kind of image asks for: kinds share it.
func (b *builder) kernel(ctx context.Context, packages []debPackage) (kernel, error) {
	all := slices.Concat(b.modules, diskModules, inputModules, shareModules)
	sum := sha256.Sum256([]byte(strings.Join(all, " ")))
	dir, err := b.fromDeb(ctx, packages, "_"+hex.EncodeToString(sum[:4]), func(debs []string, dir string) error {
		return unpackKernel(ctx, debs, dir, all)
	})
	if err != nil {
		return kernel{}, err
	}
	b.prune(filepath.Join(b.dir, "deb"), 4*keepImages)
	return openKernel(dir)
}

// shell returns the shell's executable.
func (b *builder) shell(ctx context.Context, p debPackage) ([]byte, error) {
	dir, err := b.fromDeb(ctx, []debPackage{p}, "", func(debs []string, dir string) error {
		// Debian 13 ships the file below /usr, where bin leads to on every Debian.
		return extractFile(debs[0], filepath.Join(dir, "busybox"), "bin/busybox", "usr/bin/busybox")
	})
	if err != nil {
		return nil, err
	}
	return readProgram(filepath.Join(dir, "busybox"), false)
}

// extractFile copies the first file that has one of the names out of a Debian package.
func extractFile(deb, to string, names ...string) error {
	found := false
	err := debFiles(deb, func(h *tar.Header, r io.Reader) (bool, error) {
		if found = slices.Contains(names, strings.TrimPrefix(path.Clean(h.Name), "/")); found {
			return true, writeFile(to, r, 0o755)
		}
		return false, nil
	})
	if err == nil && !found {
		err = fmt.Errorf("find %s in %s: %w", strings.Join(names, " or "), filepath.Base(deb), os.ErrNotExist)
	}
	return err
}

// sweep removes what builders leave behind, killed ones above all. The lock is held, so nobody else's
// is there.
func (b *builder) sweep() {
	_ = os.RemoveAll(filepath.Join(b.dir, aptDir)) // what stays costs space and nothing else
	for _, d := range []string{"", "image", "deb", containerDir} {
		left, _ := filepath.Glob(filepath.Join(b.dir, d, newDirPrefix+"*")) // the pattern is good
		for _, l := range left {
			_ = os.RemoveAll(l)
		}
	}
}

// prune removes all but the folders used last. One that a running guest was started from may go: QEMU
// has read it by then.
func (b *builder) prune(dir string, keep int) {
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) <= keep {
		return
	}
	used := func(e os.DirEntry) time.Time {
		info, err := e.Info()
		if err != nil {
			return time.Time{}
		}
		return info.ModTime()
	}
	slices.SortFunc(entries, func(x, y os.DirEntry) int { return used(y).Compare(used(x)) })
	for _, e := range entries[keep:] {
		if time.Since(used(e)) > time.Hour { // not between another's Build and its start of QEMU
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}
