package guestimage

import (
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/u-root/u-root/pkg/cpio"

	"pvdrm/guest-image/guestinit"
)

// shellApplets are the names under which the guest's shell binary is installed. What PVDRM's own
// programs are called wins over them.
var shellApplets = strings.Fields(`
	ash awk base64 basename blkid bunzip2 cat chgrp chmod chown chroot clear cmp cp cut date dd df
	diff dirname dmesg dnsdomainname du echo ed egrep env expr false fgrep find fold free getopt grep
	groups gunzip gzip halt head hexdump hostname id insmod kill killall less ln logname ls lsmod lspci
	md5sum mkdir mkfifo mknod mktemp more mount mv nice nohup nproc od paste patch pgrep
	pidof pkill poweroff printenv printf ps pwd readlink realpath reboot renice reset rev rm rmdir rmmod sed seq
	setsid sh sha256sum sleep sort split stat strings stty sync sysctl tac tail tar taskset tee test
	time timeout top touch tr true tty umount uname uniq unxz uptime usleep vi watch wc which
	whoami xargs xxd xz yes zcat [`)

// smallFiles make the guest look like a system that programs know.
var smallFiles = map[string]string{
	"etc/passwd":     "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
	"etc/group":      "root:x:0:\nvideo:x:44:\nrender:x:106:\nnogroup:x:65534:\n",
	"etc/hostname":   "pvdrm\n",
	"etc/os-release": "NAME=\"PVDRM guest\"\nID=pvdrm\nPRETTY_NAME=\"PVDRM guest\"\n",
	"etc/profile":    "PS1='pvdrm:\\w\\$ '\nalias ll='ls -l'\n",
}

var directories = []string{"bin", "dev", "etc", "lib", "proc", "root", "run", "sys", "tmp", "usr"}

// content is what goes into an initramfs.
type content struct {
	init     []byte
	shell    []byte
	programs map[string][]byte // by name
	modules  []string          // names in the order of loading
	module   func(name string) ([]byte, error)

	links     []string          // paths that are links to the disk; none where there is no disk
	libraries map[string][]byte // by path below lib
}

// records lists the initramfs, sorted by path, so that equal content gives equal bytes.
func (c content) records() ([]cpio.Record, error) {
	var r []cpio.Record
	for _, d := range append([]string{path.Dir(rel(guestinit.ModulesDir)), rel(guestinit.ModulesDir)}, directories...) {
		if !slices.ContainsFunc(r, func(have cpio.Record) bool { return have.Name == d }) {
			r = append(r, cpio.Directory(d, 0o755))
		}
	}
	for _, link := range []string{"sbin", "usr/bin", "usr/sbin"} {
		r = append(r, cpio.Symlink(link, "/bin"))
	}
	for name, text := range smallFiles {
		r = append(r, cpio.StaticFile(name, text, 0o644))
	}
	r = append(r, cpio.CharDev("dev/console", 0o600, 5, 1)) // init's first files, before it mounts /dev
	r = append(r, cpio.StaticFile("init", string(c.init), 0o755), cpio.StaticFile("bin/busybox", string(c.shell), 0o755))
	for _, a := range shellApplets {
		if c.programs[a] == nil {
			r = append(r, cpio.Symlink("bin/"+a, "busybox"))
		}
	}
	for name, b := range c.programs {
		r = append(r, cpio.StaticFile("bin/"+name, string(b), 0o755))
	}
	order := ""
	for _, m := range c.modules {
		b, err := c.module(m)
		if err != nil {
			return nil, err
		}
		r = append(r, cpio.StaticFile(rel(guestinit.ModulesDir)+"/"+m+".ko", string(b), 0o644))
		order += m + ".ko\n"
	}
	r = append(r, cpio.StaticFile(rel(guestinit.ModulesList), order, 0o644))
	for _, name := range c.links {
		if c.programs[path.Base(name)] == nil || path.Dir(name) != "bin" {
			r = append(r, cpio.Symlink(name, guestinit.DiskDir+"/"+name))
		}
	}
	if len(c.links) > 0 { // init mounts the disk where this directory is
		r = append(r, cpio.Directory(rel(guestinit.DiskDir), 0o755), cpio.Symlink("usr/lib", "/lib"))
	}
	stubs := false
	for name, b := range c.libraries {
		r = append(r, cpio.StaticFile("lib/"+name, string(b), 0o644)) // where the loader looks too
		stubs = stubs || path.Dir(name) == guestinit.StubsDir
	}
	if stubs {
		r = append(r, cpio.Directory("lib/"+guestinit.StubsDir, 0o755))
	}
	slices.SortFunc(r, func(a, b cpio.Record) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(r); i++ {
		if r[i].Name == r[i-1].Name {
			return nil, fmt.Errorf("two files for /%s in the image", r[i].Name)
		}
	}
	cpio.MakeAllReproducible(r)
	return r, nil
}

func rel(p string) string { return strings.TrimPrefix(p, "/") }

// write writes the initramfs, compressed with gzip: every kernel reads it, Go's library writes it,
// and unpacking it costs 0.2 s more than an uncompressed one where the processor is emulated.
func (c content) write(w io.Writer) error {
	records, err := c.records()
	if err != nil {
		return err
	}
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	out := cpio.Newc.Writer(z)
	if err := cpio.WriteRecords(out, records); err != nil {
		return err
	}
	if err := cpio.WriteTrailer(out); err != nil {
		return err
	}
	return z.Close()
}

func (c content) writeFile(name string) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	err = c.write(f)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
