package capi

import (
	"encoding/hex"
	"os"
	"slices"
	"strconv"
	"strings"

	"pvdrm/frontend/cuda"
)

// Environment variables that say which devices a program sees, and in which order. All orders are the one in
// which the devices were given to the program: that of their PCI buses, and none is known to be faster.
const (
	visibleEnv = "CUDA_VISIBLE_DEVICES"
	orderEnv   = "CUDA_DEVICE_ORDER"
)

// uuidChars is the length of a UUID as text.
const uuidChars = 36

var orders = []string{"", "FASTEST_FIRST", "PCI_BUS_ID"}

// showVisible leaves the devices that the environment names, if it names any. It does with a list what
// driver 580 does on an H100.
func (c *call) showVisible(d *cuda.Driver) error {
	if order := os.Getenv(orderEnv); !slices.Contains(orders, order) {
		return c.fail(cuda.ErrInvalidDevice, "%s=%q is neither FASTEST_FIRST nor PCI_BUS_ID", orderEnv, order)
	}
	list, set := os.LookupEnv(visibleEnv)
	if !set {
		return nil
	}
	ids := make([]string, d.DeviceCount())
	for i := range ids {
		dev, err := d.Device(i)
		if err != nil {
			return err
		}
		id := dev.UUID()
		ids[i] = uuidText(id[:])
	}
	shown := visible(list, ids)
	for i, device := range shown {
		if slices.Contains(shown[:i], device) {
			return c.fail(cuda.ErrInvalidDevice, "%s=%q names a device twice", visibleEnv, list)
		}
	}
	if len(shown) == 0 {
		return c.fail(cuda.ErrNoDevice, "%s=%q begins with none of the %d devices", visibleEnv, list, len(ids))
	}
	return d.Show(shown)
}

// uuidText is a UUID as nvidia-smi -L prints it, without the GPU- in front.
func uuidText(id []byte) string {
	h := hex.EncodeToString(id)
	return strings.Join([]string{h[:8], h[8:12], h[12:16], h[16:20], h[20:]}, "-")
}

// visible returns the devices that a list names, by their numbers or by their UUIDs. The first name that
// fits no device, or is of the other kind than the first, ends the list.
func visible(list string, ids []string) (shown []int) {
	find := func(name string) (int, bool) { return numbered(name, len(ids)) }
	if _, is := uuidIn(list); is {
		find = func(name string) (int, bool) { return identified(name, ids) }
	}
	for name := range strings.SplitSeq(list, ",") {
		device, ok := find(name)
		if !ok {
			break
		}
		shown = append(shown, device)
	}
	return shown
}

// numbered reads the number of one of n devices as an H100's driver does: what follows the number does not
// count, and of a large one only the lower 32 bits do.
func numbered(name string, n int) (device int, ok bool) {
	digits := strings.TrimPrefix(strings.TrimLeft(name, " \t"), "+")
	if end := strings.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' }); end >= 0 {
		digits = digits[:end]
	}
	v, err := strconv.ParseInt(digits, 10, 64)
	device = int(int32(v))
	return device, err == nil && device >= 0 && device < n
}

// uuidIn finds what of a name is to be the beginning of a UUID. What follows a whole one does not count.
func uuidIn(name string) (id string, ok bool) {
	for _, prefix := range []string{"GPU-", "MIG-"} {
		if id, ok = strings.CutPrefix(name, prefix); ok {
			return id[:min(len(id), uuidChars)], true
		}
	}
	return "", false
}

// identified finds the only device whose UUID begins as a name says.
func identified(name string, ids []string) (device int, ok bool) {
	start, ok := uuidIn(name)
	found := 0
	for i, id := range ids {
		if len(start) > 0 && len(start) <= len(id) && strings.EqualFold(id[:len(start)], start) {
			device = i
			found++
		}
	}
	return device, ok && found == 1
}
