package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	"go.uber.org/zap"
)

func TestParseBytes(t *testing.T) {
	for in, want := range map[string]uint64{"1": 1, "4096": 4096, "1K": 1 << 10, "512M": 512 << 20, "4G": 4 << 30, "65536G": 1 << 46} {
		got, err := parseBytes(in)
		require.NoError(t, err, in)
		require.Equal(t, want, got, in)
	}
	for _, in := range []string{"", "0", "G", "-1", "1T", "1g", "1.5G", "65537G", "99999999999999999999", "1 G"} {
		_, err := parseBytes(in)
		require.Error(t, err, in)
	}
}

// The flags that one pvdrm passes to another mean the same there.
func TestDeviceFlagsPassOn(t *testing.T) {
	c := newBackend(&global{})
	require.NoError(t, c.ParseFlags((&deviceFlags{device: deviceName{number: 2}, vram: "64M", sms: 3, sm: 90}).args()))
	for name, value := range map[string]string{"device": "softgpu:2", "vram": "64M", "sms": "3", "sm": "9.0"} {
		require.Equal(t, value, c.Flags().Lookup(name).Value.String())
	}
}

// A backend sees the devices by which it renders, whatever names them.
func TestDevicesToRender(t *testing.T) {
	for node, want := range map[string][]string{
		"": nil, "/dev/dri/renderD128": {"/dev/dri/renderD128"}, "cuda:1": {"/dev/nvidia*", "/dev/dri/*"}, "egl:0": {"/dev/nvidia*", "/dev/dri/*"},
	} {
		v, err := (&deviceFlags{gl: glFlags{node: node}}).devices()
		require.NoError(t, err)
		for _, path := range want {
			require.Contains(t, v.Root.Visible, path)
		}
		require.Equal(t, want == nil, v.Root.Visible == nil)
		require.Equal(t, len(want) == 2, v.Root.ThreadNames, "NVIDIA's driver names threads")
	}
}

func TestCapability(t *testing.T) {
	require.Equal(t, "9.0", new(capability).String())
	for in, want := range map[string]string{"9.0": "9.0", "90": "9.0", "sm_90": "9.0", "12.1": "12.1", "52": "5.2"} {
		var c capability
		require.NoError(t, c.Set(in))
		require.Equal(t, want, c.String())
	}
	for _, in := range []string{"", "9", "9.1", "sm_90a", "-75", "7..5", "99999999999999999999"} {
		require.ErrorContains(t, new(capability).Set(in), "want one of 5.0, 5.2", in)
	}
}

func TestDeviceAsTheFlagsSay(t *testing.T) {
	d := deviceFlags{sm: 86, vram: "64M", sms: 2}
	device, err := d.device.kind().open(&d, 64<<20, nil)
	require.NoError(t, err)
	p := device.Properties()
	require.Equal(t, []int{8, 6, 2}, []int{p.ComputeMajor, p.ComputeMinor, p.Multiprocs})
	require.NoError(t, device.Close())

	most, err := (&deviceFlags{}).memory()
	require.NoError(t, err)
	require.GreaterOrEqual(t, most, uint64(1<<30))
	device, err = d.device.kind().open(&deviceFlags{}, most, nil)
	require.NoError(t, err, "a host's quarter is a size that a device may have")
	require.Equal(t, most, device.Properties().VRAMBytes)
	require.NoError(t, device.Close())
}

func TestDeviceNames(t *testing.T) {
	for in, want := range map[string]deviceName{
		"softgpu":   {named: deviceKinds[0]},
		"softgpu:0": {named: deviceKinds[0]},
		"cuda:12":   {named: deviceKinds[1], number: 12},
	} {
		var got deviceName
		require.NoError(t, got.Set(in))
		require.Equal(t, want, got)
		var again deviceName
		require.NoError(t, again.Set(got.String()))
		require.Equal(t, got, again)
	}
	for in, want := range map[string]string{
		"voodoo":             `unknown device "voodoo" (want softgpu or cuda, or one of these with a number, as in softgpu:1)`,
		"":                   `unknown device ""`,
		"cuda:":              `"" is not the number of a device, as in cuda:1`,
		"cuda:-1":            `"-1" is not the number`,
		"softgpu:x":          `"x" is not the number`,
		"softgpu:1:1":        `"1:1" is not the number`,
		"cuda:9999999999999": `is not the number`,
	} {
		require.ErrorContains(t, new(deviceName).Set(in), want)
	}
}

func TestDeviceLists(t *testing.T) {
	for in, want := range map[string]string{
		"softgpu": "softgpu", "softgpu:0,1": "softgpu,softgpu:1", "cuda:3,0,softgpu,7": "cuda:3,cuda,softgpu,softgpu:7", "softgpu,cuda:0,1": "softgpu,cuda,cuda:1",
	} {
		var d deviceFlags
		require.NoError(t, deviceList{&d}.Set(in))
		require.Equal(t, want, deviceList{&d}.String())
		var again deviceFlags
		require.NoError(t, deviceList{&again}.Set(want))
		require.Equal(t, d, again)
		require.NoError(t, deviceList{&again}.Set("cuda"), "the last flag counts")
		require.Empty(t, again.more)
	}
	for in, want := range map[string]string{
		"softgpu,softgpu:0": "softgpu is named twice", "softgpu:1,1": "softgpu:1 is named twice", "0,1": `unknown device "0"`, "softgpu,": `unknown device ""`,
		"softgpu:0,-1": `unknown device "-1"`, "softgpu" + strings.Repeat(",1", 16): "named twice", "softgpu:0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16": "more than 16 devices",
	} {
		var d deviceFlags
		require.ErrorContains(t, deviceList{&d}.Set(in), want, in)
	}
}

// Each device has flags of its own: the name, and of the memory that one would have its part.
func TestFlagsOfEachDevice(t *testing.T) {
	d := deviceFlags{guest: "g", box: sandboxOn, weight: 1, place: -1}
	require.NoError(t, deviceList{&d}.Set("softgpu:0,1"))
	require.ErrorContains(t, d.check(), "only the guests of pvdrm run and pvdrm up can have several devices")
	d.several = true
	require.NoError(t, d.check())
	each := d.each()
	require.Len(t, each, 2)
	require.Equal(t, []string{"softgpu", "softgpu:1", "g", "g-1"}, []string{each[0].device.String(), each[1].device.String(), each[0].guest, each[1].guest})
	all, err := (&deviceFlags{}).memory()
	require.NoError(t, err)
	for i := range each {
		require.Empty(t, each[i].more)
		part, err := each[i].memory()
		require.NoError(t, err)
		require.LessOrEqual(t, 2*part, all)
		require.NotZero(t, part)
	}
	d.vram = "128M"
	require.Equal(t, "128M", d.each()[1].vram)
	d.arbiter = "/run/arbiter"
	require.NoError(t, d.check())
	each = d.each()
	require.Equal(t, []int{0, 1}, []int{each[0].place, each[1].place}, "one arbiter shares both")
	require.Equal(t, []string{"/run/arbiter", "/run/arbiter", "g", "g"}, []string{each[0].arbiter, each[1].arbiter, each[0].guest, each[1].guest})
	d.place = 1
	require.ErrorContains(t, d.check(), "--arbiter-gpu is for one device")
	d.place = -1
	d.arbiter = "a,b,c"
	require.ErrorContains(t, d.check(), "or a socket for each device")
	d.arbiter = "/run/arbiter,b"
	require.NoError(t, d.check())
	each = d.each()
	require.Equal(t, []string{"/run/arbiter", "b", "g", "g"}, []string{each[0].arbiter, each[1].arbiter, each[0].guest, each[1].guest})
	require.Equal(t, "", (&deviceFlags{}).each()[0].vram, "one alone takes its default where it is opened")
}

// Each row has what the commands call without looking, and its flags travel to another pvdrm.
func TestDeviceKinds(t *testing.T) {
	for _, k := range deviceKinds {
		require.NotEmpty(t, k.about, k.name)
		require.NotNil(t, k.open, k.name)
		require.NotNil(t, k.programs, k.name)
		require.NotEmpty(t, k.examine(), k.name)
		var d deviceFlags
		c := &cobra.Command{}
		d.add(c)
		require.NoError(t, d.device.Set(k.name+":1"))
		require.NoError(t, c.ParseFlags(d.args()), k.name)
		require.Equal(t, k, d.device.kind())
		require.Equal(t, 1, d.device.number)
	}
}

// A device that does not exist is refused with what to do.
func TestDeviceThatDoesNotExist(t *testing.T) {
	root := newRoot()
	root.SetArgs([]string{benchNative, "--device", "softgpu:64"})
	require.ErrorContains(t, root.Execute(), "there is no software GPU 64, only 0 to 63")

	d := deviceFlags{device: deviceName{number: 3}, limit: time.Second, box: sandboxOff, weight: 1}
	device, err := d.open(zap.NewNop(), d.connect)
	require.NoError(t, err)
	require.Equal(t, 3, device.Properties().Number)
	require.NoError(t, device.Close())
}

// No command names a kind of device: what differs stands in the rows.
func TestNoDeviceIsNamedElsewhere(t *testing.T) {
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	for _, file := range files {
		if file == "devices.go" || strings.HasSuffix(file, "_test.go") {
			continue
		}
		b, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, k := range deviceKinds {
			require.NotContains(t, string(b), strconv.Quote(k.name), file)
		}
	}
}

func TestLaunchLimitIsChecked(t *testing.T) {
	check := func(limit string) error {
		d := &deviceFlags{}
		c := &cobra.Command{}
		d.add(c)
		require.NoError(t, c.ParseFlags([]string{"--launch-limit", limit}))
		return d.check()
	}
	for _, good := range []string{"0", "1ms", "14s"} {
		require.NoError(t, check(good), good)
	}
	for _, bad := range []string{"-1s", "15s"} {
		require.ErrorContains(t, check(bad), "at least 0, which is the default", bad)
	}
}
