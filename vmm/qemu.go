package vmm

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"time"
)

// DefaultQEMU is the program that is looked for in PATH.
const DefaultQEMU = "qemu-system-x86_64"

// Reasons for which a QEMU cannot be used. The errors that wrap them say what to do.
var (
	ErrNoQEMU  = errors.New("QEMU not found")
	ErrOldQEMU = errors.New("QEMU is too old")
)

// installHint is what to do about either.
const installHint = "run scripts/deps.sh, or on Debian 12: apt-get install -t bookworm-backports --no-install-recommends qemu-system-x86"

// Version is a version of QEMU.
type Version struct{ Major, Minor, Micro int }

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v.Major, v.Minor, v.Micro) }

// Less reports whether v is older than w.
func (v Version) Less(w Version) bool {
	if v.Major != w.Major {
		return v.Major < w.Major
	}
	if v.Minor != w.Minor {
		return v.Minor < w.Minor
	}
	return v.Micro < w.Micro
}

// Oldest versions that work. QEMU 7.2 refuses vhost-user devices without KVM ("vhost initialization
// failed: requires kvm"); 10.0 is the first that was tried and does not. vfio-user-pci came with 10.1; 11.1 is the
// first that was tried.
var (
	MinVersion    = Version{7, 2, 0}
	MinVersionTCG = Version{10, 0, 0}
	MinVersionPCI = Version{11, 1, 0}
)

// QEMU is an installed QEMU.
type QEMU struct {
	Path    string
	Version Version
}

var versionPattern = regexp.MustCompile(`(?m)^QEMU emulator version (\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?`)

// parseVersion reads what "qemu-system-x86_64 --version" prints.
func parseVersion(s string) (Version, error) {
	m := versionPattern.FindStringSubmatch(s)
	if m == nil {
		return Version{}, fmt.Errorf("cannot read QEMU's version from %.80q", s)
	}
	var v Version
	for i, to := range []*int{&v.Major, &v.Minor, &v.Micro} {
		*to, _ = strconv.Atoi(m[i+1]) // at most four digits, or nothing, which is 0
	}
	return v, nil
}

// FindQEMU looks for QEMU (DefaultQEMU where path is empty) and asks for its version. The error wraps
// ErrNoQEMU or ErrOldQEMU where that is the reason.
func FindQEMU(ctx context.Context, path string) (QEMU, error) {
	if path == "" {
		path = DefaultQEMU
	}
	full, err := exec.LookPath(path)
	if err != nil {
		return QEMU{}, fmt.Errorf("%w (%w): %s", ErrNoQEMU, err, installHint)
	}
	limit, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	out, err := exec.CommandContext(limit, full, "--version").Output()
	if ctx.Err() != nil {
		return QEMU{}, context.Cause(ctx)
	}
	if err != nil {
		return QEMU{}, fmt.Errorf("%s --version: %w", full, err)
	}
	v, err := parseVersion(string(out))
	if err != nil {
		return QEMU{}, fmt.Errorf("%s: %w", full, err)
	}
	q := QEMU{full, v}
	return q, q.check(MinVersion, "")
}

func (q QEMU) check(least Version, why string) error {
	if q.Version.Less(least) {
		installHint := installHint
		if least == MinVersionPCI {
			installHint = "scripts/qemu-pci.sh unpacks one that is given by --qemu"
		}
		return fmt.Errorf("%w: %s is version %v, but %sversion %v is needed: %s", ErrOldQEMU, q.Path, q.Version, why, least, installHint)
	}
	return nil
}
