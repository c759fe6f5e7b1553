package guestimage

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

// This file writes EROFS, a read-only file system that Debian's kernels have (Linux's
// Documentation/filesystems/erofs.rst, fs/erofs/erofs_fs.h): uncompressed, since a
// guest with an emulated processor reads faster than it unpacks. The image is a
// superblock, the inodes, then the blocks of all files in the order of the inodes.

const (
	erofsBlock     = 4096
	erofsMagic     = 0xe0f5e1e2
	erofsSuper     = 1024 // where the superblock is
	erofsSuperSize = 128
	erofsSlot      = 32 // inodes lie at multiples of it; their number is counted in it
	erofsInode     = 64 // bytes of an extended inode
	erofsExtended  = 1  // i_format: an extended inode whose data lies in whole blocks
	erofsDirent    = 12
)

// Types of directory entries.
const (
	erofsTypeRegular = 1
	erofsTypeDir     = 2
	erofsTypeSymlink = 7
)

// erofsNode is a file, a directory or a symbolic link.
type erofsNode struct {
	name     string
	path     string // of a file, on the host
	mode     uint16 // as stat(2) has it
	data     []byte // of a directory or a link
	size     uint64
	block    uint32 // the first one
	nid      uint64
	children []*erofsNode
}

// writeEROFS writes a file system with the files, directories and symbolic links
// below dir. All belong to root and have no times: equal trees give equal bytes.
func writeEROFS(w io.Writer, dir string) error {
	root, err := erofsTree(dir, "")
	if err != nil {
		return err
	}
	nodes := root.all(nil)
	for i, n := range nodes {
		n.nid = (erofsSuper + erofsSuperSize + uint64(i)*erofsInode) / erofsSlot
	}
	root.fillDirs(root)
	next := blocks(erofsSuper + erofsSuperSize + uint64(len(nodes))*erofsInode)
	for _, n := range nodes {
		n.block = uint32(next)
		next += blocks(n.size)
	}
	if next > 1<<32-1 {
		return fmt.Errorf("%s: %d blocks are too many for one file system", dir, next)
	}
	out := &padded{w: bufio.NewWriterSize(w, 1<<20)}
	out.write(make([]byte, erofsSuper))
	out.write(erofsSuperblock(root.nid, len(nodes), uint32(next)))
	for i, n := range nodes {
		out.write(n.inode(uint32(i + 1)))
	}
	out.pad()
	for _, n := range nodes {
		if err := n.copyData(out); err != nil {
			return err
		}
		out.pad()
	}
	return cmp.Or(out.err, out.w.Flush())
}

func blocks(size uint64) uint64 { return (size + erofsBlock - 1) / erofsBlock }

// erofsTree reads what is below a path.
func erofsTree(path, name string) (*erofsNode, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	n := &erofsNode{name: name, path: path, mode: uint16(info.Mode().Perm())}
	switch mode := info.Mode(); {
	case mode.IsRegular():
		n.mode |= unix.S_IFREG
		n.size = uint64(info.Size())
	case mode&fs.ModeSymlink != 0:
		to, err := os.Readlink(path)
		if err != nil {
			return nil, err
		}
		n.mode = unix.S_IFLNK | 0o777
		n.data, n.size = []byte(to), uint64(len(to))
	case mode.IsDir():
		n.mode |= unix.S_IFDIR
		entries, err := os.ReadDir(path)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			c, err := erofsTree(filepath.Join(path, e.Name()), e.Name())
			if err != nil {
				return nil, err
			}
			n.children = append(n.children, c)
		}
	default:
		return nil, fmt.Errorf("%s is neither a file nor a directory nor a link", path)
	}
	return n, nil
}

// all appends the node and those below it.
func (n *erofsNode) all(to []*erofsNode) []*erofsNode {
	to = append(to, n)
	for _, c := range n.children {
		to = c.all(to)
	}
	return to
}

func (n *erofsNode) isDir() bool { return n.mode&unix.S_IFMT == unix.S_IFDIR }

func (n *erofsNode) entryType() byte {
	switch n.mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return erofsTypeDir
	case unix.S_IFLNK:
		return erofsTypeSymlink
	}
	return erofsTypeRegular
}

// fillDirs makes the content of the directory and of those below it, once every
// node has its number. A block of a directory has struct erofs_dirent {nid u64,
// nameoff u16, type u8, reserved u8} for each entry, then the names; entries are
// sorted by name, through all blocks.
func (n *erofsNode) fillDirs(parent *erofsNode) {
	type entry struct {
		name string
		node *erofsNode
	}
	entries := []entry{{".", n}, {"..", parent}}
	for _, c := range n.children {
		entries = append(entries, entry{c.name, c})
		if c.isDir() {
			c.fillDirs(n)
		}
	}
	slices.SortFunc(entries, func(a, b entry) int { return cmp.Compare(a.name, b.name) })
	le := binary.LittleEndian
	for len(entries) > 0 {
		fit, used := 0, 0
		for fit < len(entries) && used+erofsDirent+len(entries[fit].name) <= erofsBlock {
			used += erofsDirent + len(entries[fit].name)
			fit++
		}
		n.data = append(n.data, make([]byte, blocks(uint64(len(n.data)))*erofsBlock-uint64(len(n.data)))...)
		at := fit * erofsDirent
		var names []byte
		for _, e := range entries[:fit] {
			n.data = le.AppendUint64(n.data, e.node.nid)
			n.data = le.AppendUint16(n.data, uint16(at+len(names)))
			n.data = append(n.data, e.node.entryType(), 0)
			names = append(names, e.name...)
		}
		n.data = append(n.data, names...)
		entries = entries[fit:]
	}
	n.size = uint64(len(n.data))
}

// links is the number of names of the node.
func (n *erofsNode) links() uint32 {
	if !n.isDir() {
		return 1
	}
	links := uint32(2)
	for _, c := range n.children {
		if c.isDir() {
			links++
		}
	}
	return links
}

// inode encodes struct erofs_inode_extended: i_format, i_xattr_icount, i_mode,
// reserved, all u16; i_size u64; i_u (the first block) u32, i_ino u32, i_uid u32,
// i_gid u32, i_mtime u64, i_mtime_nsec u32, i_nlink u32, reserved u8[16].
func (n *erofsNode) inode(number uint32) []byte {
	le := binary.LittleEndian
	b := make([]byte, erofsInode)
	le.PutUint16(b, erofsExtended)
	le.PutUint16(b[4:], n.mode)
	le.PutUint64(b[8:], n.size)
	le.PutUint32(b[16:], n.block)
	le.PutUint32(b[20:], number)
	le.PutUint32(b[44:], n.links())
	return b
}

// erofsSuperblock encodes struct erofs_super_block: magic u32, checksum u32,
// feature_compat u32, blkszbits u8, sb_extslots u8, root_nid u16, inos u64,
// build_time u64, build_time_nsec u32, blocks u32; what follows is 0 here.
func erofsSuperblock(root uint64, inodes int, blocks uint32) []byte {
	le := binary.LittleEndian
	b := make([]byte, erofsSuperSize)
	le.PutUint32(b, erofsMagic)
	b[12] = 12 // blocks of 1<<12 bytes
	le.PutUint16(b[14:], uint16(root))
	le.PutUint64(b[16:], uint64(inodes))
	le.PutUint32(b[36:], blocks)
	return b
}

// copyData writes the node's content, which must have the size that was read first.
func (n *erofsNode) copyData(to *padded) error {
	if n.mode&unix.S_IFMT != unix.S_IFREG {
		to.write(n.data)
		return nil
	}
	f, err := os.Open(n.path)
	if err != nil {
		return err
	}
	defer f.Close()
	copied, err := io.Copy(to, f)
	if err == nil && uint64(copied) != n.size {
		err = fmt.Errorf("%s changed while it was read", n.path)
	}
	return err
}

// padded writes and counts, and keeps the first error.
type padded struct {
	w   *bufio.Writer
	n   uint64
	err error
}

// Write implements io.Writer.
func (p *padded) Write(b []byte) (int, error) {
	p.write(b)
	return len(b), p.err
}

func (p *padded) write(b []byte) {
	if p.err == nil {
		_, p.err = p.w.Write(b)
	}
	p.n += uint64(len(b))
}

// pad writes zeros up to the next block.
func (p *padded) pad() {
	p.write(make([]byte, blocks(p.n)*erofsBlock-p.n))
}
