package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"pvdrm/backend/file"
	"pvdrm/backend/peers"
	"pvdrm/gpu/nvidia"
	"pvdrm/internal/unixsock"
)

// peerFlags are the devices of a guest that has several of one kind, in their order. Their backends are linked. Each has
// two sockets for each other one: to its backend, which says what memory a key names, and from its keeper to
// that one's keeper, which has the memory.
type peerFlags struct {
	numbers []int // of the devices, among those of their kind; empty: they are not linked
	place   int   // of the own device among them

	files   []*os.File       // in the parent: the two sockets for each other device, in their order
	keepers map[int]*os.File // in the backend, by place
	lenders map[int]*os.File // likewise
	lines   *peers.Lines
}

// Names of the flags by which the parent tells a backend.
const (
	peerNumbers = "peers"
	peerPlace   = "peer-place"
)

func (p *peerFlags) add(c *cobra.Command) {
	c.Flags().IntSliceVar(&p.numbers, peerNumbers, nil, "numbers of all devices of the guest")
	c.Flags().IntVar(&p.place, peerPlace, 0, "which of them this is")
	for _, name := range []string{peerNumbers, peerPlace} {
		_ = c.Flags().MarkHidden(name) // they are of no use without the sockets
	}
}

func (p *peerFlags) args() []string {
	if len(p.files) == 0 {
		return nil
	}
	var text []string
	for _, n := range p.numbers {
		text = append(text, strconv.Itoa(n))
	}
	return []string{"--" + peerNumbers, strings.Join(text, ","), "--" + peerPlace, strconv.Itoa(p.place)}
}

// linkPeers makes the sockets between the devices of one guest, if they are several of a kind that can be linked.
func linkPeers(all []deviceFlags) error {
	var numbers []int
	for i := range all {
		if kind := all[i].device.kind(); len(all) < 2 || !kind.linked || kind != all[0].device.kind() {
			return nil
		}
		numbers = append(numbers, all[i].device.number)
	}
	files := make([][]*os.File, len(all))
	for i := range all {
		for j := range i {
			for range 2 {
				one, other, err := unixsock.Pair(unix.SOCK_SEQPACKET)
				if err != nil {
					for _, list := range files {
						err = errors.Join(err, closeFiles(list))
					}
					return fmt.Errorf("linking the guest's devices: %w", err)
				}
				// The sockets of a device come in the order of the others: j grows in files[i], and i in files[j].
				files[i], files[j] = append(files[i], os.NewFile(uintptr(one), "peer")), append(files[j], other)
			}
		}
	}
	for i := range all {
		all[i].peers = peerFlags{numbers: numbers, place: i, files: files[i]}
	}
	return nil
}

// closePeers closes the sockets of backends that are not started.
func closePeers(rest []deviceFlags) (err error) {
	for i := range rest {
		err = errors.Join(err, closeFiles(rest[i].peers.files))
	}
	return err
}

func closeFiles(files []*os.File) (err error) {
	for _, f := range files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// take takes the sockets that the parent has given, if it has.
func (p *peerFlags) take(files []*os.File) error {
	if len(files) != 2*max(len(p.numbers)-1, 0) || p.place < 0 || p.place >= max(len(p.numbers), 1) {
		return errors.Join(usageError{fmt.Errorf("--%s: pvdrm run and pvdrm up set it", peerNumbers)}, closeFiles(files))
	}
	p.lenders, p.keepers = map[int]*os.File{}, map[int]*os.File{}
	for place := range p.numbers {
		if place != p.place {
			p.lenders[place], p.keepers[place], files = files[0], files[1], files[2:]
		}
	}
	return nil
}

// ofCUDA returns the peers of an NVIDIA GPU, which has the sockets of their keepers from now on.
func (p *peerFlags) ofCUDA() (list []nvidia.Peer) {
	for place, number := range p.numbers {
		if f := p.keepers[place]; f != nil {
			list = append(list, nvidia.Peer{Place: place, Number: number, Keeper: f})
		}
	}
	p.keepers = nil
	return list
}

// lend has the guest's files borrow from its other devices, and lend to them.
func (p *peerFlags) lend(guest *file.Guest) (err error) {
	if len(p.lenders) == 0 {
		return nil
	}
	lenders := p.lenders
	p.lenders = nil
	if p.lines, err = peers.New(lenders, guest); err != nil {
		return err
	}
	guest.SetLender(p.lines)
	return nil
}

// close takes back what was lent.
func (p *peerFlags) close() {
	if p.lines != nil {
		p.lines.Close()
	}
}
