package hostile

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"syscall"
	"time"

	"pvdrm/drm"
	"pvdrm/frontend"
	"pvdrm/hypercall"
)

// Allowance is what the guest may have: an attack that gets more has succeeded.
type Allowance struct {
	ModuleText uint64        // bytes of module sources
	VRAM       uint64        // bytes of device memory
	Granted    uint64        // bytes of granted pages
	Burst      time.Duration // for which an attack makes noise
}

// Exhaustions lists the attacks on the host's memory and logs. What they get there
// those see who look at the backend from outside.
func Exhaustions(a Allowance) []Attack {
	with := func(run func(Opener, Allowance) error) func(Opener, *rand.Rand) error {
		return func(open Opener, _ *rand.Rand) error { return run(open, a) }
	}
	return []Attack{
		{Name: "unfinished-sources", run: with(unfinishedSources)},
		{Name: "compile-bombs", run: with(compileBombs)},
		{Name: "module-variables", run: with(moduleVariables)},
		{Name: "raw-allocations", run: with(rawAllocations)},
		{Name: "preempted-launches", run: with(preemptedLaunches)},
		{Name: "waiting-launches", run: with(waitingLaunches)},
		{Name: "stopped-launches", run: with(stoppedLaunches)},
		{Name: "forge-names", run: with(forgeNames)},
		{Name: "make-noise", run: with(makeNoise)},
	}
}

// unfinishedSources begins to send many sources, as large as one may be, and ends none.
func unfinishedSources(open Opener, a Allowance) error {
	const sources = 64
	layout := hypercall.DefaultLayout
	layout.BulkBytes = hypercall.MaxBulkBytes
	size := min(a.ModuleText, drm.MaxSource)
	var all []*raw
	var accepted uint64
	attack := func() error {
		for len(all) < sources {
			r, err := openRing(open, layout)
			if err != nil {
				return fmt.Errorf("another file: %w", err)
			}
			all = append(all, r)
			n, err := r.begin(size)
			for ; n == 0 && err == nil && accepted == 0 && size > 4096; n, err = r.begin(size) {
				size /= 2 // even one of that size is refused
			}
			if err != nil {
				return err
			}
			accepted += n
		}
		if accepted == 0 {
			return errors.New("no source was taken, however small")
		}
		if accepted > a.ModuleText {
			return fmt.Errorf("%d bytes of sources were taken, where %d are allowed", accepted, a.ModuleText)
		}
		return nil
	}
	errs := []error{attack()}
	for _, r := range all {
		errs = append(errs, r.end())
	}
	return errors.Join(errs...)
}

// begin sends all parts of a source but the last, and returns how many bytes were taken.
func (r *raw) begin(size uint64) (taken uint64, err error) {
	part := min(uint64(len(r.ring.Bulk())), size/2)
	for taken+part < size {
		m := hypercall.ModuleLoad{Module: 1, Bytes: uint32(part), Offset: taken, Total: size, Name: "unfinished"}
		errno, err := r.ask(hypercall.OpModuleLoad, m.Append(nil))
		if errors.Is(err, errGone) || errno != 0 {
			return taken, nil
		}
		if err != nil {
			return taken, err
		}
		taken += part
	}
	return taken, nil
}

const ptxHead = ".version 6.3\n.target sm_70\n.address_size 64\n"

// bombs are sources that become much larger when they are compiled, made for a number
// of bytes.
var bombs = []struct {
	name string
	make func(size int) string
}{
	{name: "statements", make: inBody("", "ret;")},
	{name: "blocks", make: inBody(".reg .pred p;", "@p exit;")},
	{name: "operands", make: inBody(".reg .b32 r;", "mad.lo.s32 r,r,r,r;")},
	{name: "labels", make: func(size int) string {
		return body("", count(size, func(i int) string { return fmt.Sprintf("L%x:", i) }))
	}},
	{name: "registers", make: func(size int) string {
		return body("", count(size, func(i int) string { return fmt.Sprintf(".reg .b64 r%x;", i) }))
	}},
	{name: "a-range-of-registers", make: func(int) string {
		return body(".reg .b64 r<16777216>;", "mov.u64 r1, r16777215;")
	}},
	{name: "functions", make: func(size int) string {
		return count(size, func(i int) string { return fmt.Sprintf(".func f%x(){ret;}", i) })
	}},
	{name: "kernels", make: func(size int) string {
		return count(size, func(i int) string { return fmt.Sprintf(".entry k%x(){ret;}", i) })
	}},
	{name: "variables", make: func(size int) string {
		return count(size, func(i int) string { return fmt.Sprintf(".global .u8 v%x;", i) })
	}},
	{name: "initialisers", make: func(size int) string {
		return ".global .u8 v[] = {0" + strings.Repeat(",0", size/2) + "};"
	}},
	{name: "loops", make: func(size int) string {
		return body(".reg .pred p;.reg .b64 r<4>;", count(size, func(i int) string { return fmt.Sprintf("L%x: add.s64 r1,r2,r3; @p bra L%x;", i, i) }))
	}},
	{name: "jumps-to-everywhere", make: func(size int) string {
		const labels = 64
		var b strings.Builder
		for i := range labels {
			fmt.Fprintf(&b, "L%d:", i)
			b.WriteString(count(size/labels, func(k int) string { return fmt.Sprintf("@p bra L%d;", (i*7+k)%labels) }))
		}
		return body(".reg .pred p;", b.String())
	}},
	{name: "live-values", make: func(size int) string {
		const live = 4096
		var b strings.Builder
		fmt.Fprintf(&b, ".reg .pred p;.reg .b32 r<%d>;", live)
		b.WriteString(count(size, func(i int) string {
			return fmt.Sprintf("add.u32 r%d,r%d,r%d;@p bra Z;", i%live, (i*5+1)%live, (i*3+2)%live)
		}))
		return body("", b.String()+"Z:")
	}},
	{name: "not-ptx", make: func(size int) string { return strings.Repeat("{", size) }},
	{name: "wrong", make: func(size int) string {
		return count(size, func(i int) string { return fmt.Sprintf(".entry k%x(){x;}", i) })
	}},
}

// body makes a kernel.
func body(declarations, statements string) string {
	return ".visible .entry k(){" + declarations + statements + "}"
}

// inBody repeats a statement in a kernel.
func inBody(declarations, statement string) func(int) string {
	return func(size int) string { return body(declarations, strings.Repeat(statement, size/len(statement))) }
}

// count repeats what is made of numbers.
func count(size int, of func(int) string) string {
	var b strings.Builder
	b.Grow(size + 64)
	for i := 0; b.Len() < size; i++ {
		b.WriteString(of(i))
	}
	return b.String()
}

// compileBombs has modules compiled that are small and become large, all at once: one
// that is as large as may be, and many. They may be refused. What it costs the host,
// others look at.
func compileBombs(open Opener, a Allowance) error {
	const large, small, many = 4 << 20, 64 << 10, 12
	var all sync.WaitGroup
	errs := make([]error, len(bombs))
	for i, b := range bombs {
		all.Go(func() {
			errs[i] = withFile(open, func(f *frontend.File) error {
				for n := range many {
					size := small
					if n == 0 {
						size = int(min(a.ModuleText, large)) - 1024
					}
					if _, err := f.ModuleLoad(b.name, []byte(ptxHead+b.make(size))); err != nil {
						if err = mustBeRefusal(b.name, err); err != nil {
							return err
						}
					}
				}
				return nil
			})
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// mustBeRefusal requires that a module was refused, or its session ended, and no more.
func mustBeRefusal(what string, err error) error {
	var refused *drm.ModuleError
	if errors.As(err, &refused) {
		return nil
	}
	for _, errno := range []syscall.Errno{syscall.ENOSPC, syscall.ENOMEM, syscall.EINVAL, syscall.EFBIG, syscall.ENODEV, syscall.ETIME, syscall.ETIMEDOUT, syscall.EBUSY} {
		if errors.Is(err, errno) {
			return nil
		}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// moduleVariables has device memory for the variables of modules.
func moduleVariables(open Opener, a Allowance) error {
	const size = 16 << 20
	source := []byte(fmt.Sprintf("%s.visible .global .align 4 .b8 v[%d];\n.visible .entry k(){ret;}", ptxHead, size))
	return withFile(open, func(f *frontend.File) error {
		for taken := uint64(0); taken <= a.VRAM; taken += size {
			if _, err := f.ModuleLoad("variables", source); err != nil {
				return mustBeRefusal("variables", err)
			}
		}
		return fmt.Errorf("more than %d bytes of variables", a.VRAM)
	})
}

// rawAllocations has granted pages that it puts into no object.
func rawAllocations(open Opener, a Allowance) error {
	c, err := open()
	if err != nil {
		return err
	}
	const size = 16 << 20
	attack := func() error {
		for taken := uint64(0); taken <= a.Granted; taken += size {
			if _, err := c.Alloc(size); err != nil {
				return mustBeRefusal("granted pages", err)
			}
		}
		return fmt.Errorf("more than %d bytes of granted pages", a.Granted)
	}
	return errors.Join(attack(), c.Close())
}

// forgeNames names things in a way that a terminal would take for commands, or show
// as something else: C1 controls, overrides of the direction of writing.
func forgeNames(open Opener, _ Allowance) error {
	const evil = "\u009b31mEVIL\u202egnp.\u2066\u0007\x1b[2J\r\nlevel=error"
	return withFile(open, func(f *frontend.File) error {
		ch, err := f.ChannelAlloc()
		if err != nil {
			return err
		}
		m, err := f.ModuleLoad(evil, []byte(ptxHead+".visible .entry forged(){trap;}"))
		if err != nil {
			return mustBeRefusal("a name", err)
		}
		fn, _, err := f.ModuleFunction(m, "forged")
		if err != nil {
			return err
		}
		s := &session{File: f, channel: ch}
		return mustFault(s.run(drm.LaunchCmd{Function: fn, Grid: [3]uint32{1, 1, 1}, Block: [3]uint32{1, 1, 1}}.Append(nil)), "a trap")
	})
}

// makeNoise does, for as long as it is allowed, what a backend has reason to log:
// it breaks protocols, loses contexts and hangs up.
func makeNoise(open Opener, a Allowance) error {
	for end := time.Now().Add(a.Burst); time.Now().Before(end); {
		if c, err := open(); err == nil {
			_ = c.Close() // it was never attached
		}
		if err := withRaw(open, func(r *raw) error {
			for i := range 64 {
				r.pages.Mem[i*64] = 0xff // all words of the control page
			}
			return r.kick()
		}); err != nil {
			return err
		}
		if err := withFile(open, func(f *frontend.File) error {
			s, err := prepare(f)
			if err != nil {
				return err
			}
			return mustFault(s.launch(kernelAdd, 1), "a misaligned access")
		}); err != nil {
			return err
		}
	}
	return nil
}
