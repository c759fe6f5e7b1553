package guestimage

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// kernelMetas are the packages that depend on a suite's current kernel image: Debian's, and
// Ubuntu's, which has the modules in a package of their own.
var kernelMetas = []string{"linux-image-amd64", "linux-image-virtual"}

// modulesPrefix begins the name of Ubuntu's package of modules.
const modulesPrefix = "linux-modules-"

// shellPackage is the package with the guest's shell and small tools, in one static binary.
const shellPackage = "busybox-static"

// aptDir is where a package index of our own is, below the cache.
const aptDir = "apt"

// debPackage names one version of a Debian package as the archive's signed index describes it.
type debPackage struct {
	Name, Version, SHA256 string
	Size                  int64 // of the .deb in bytes
}

// id is a file name for what was made of the package.
func (p debPackage) id() string {
	return p.Name + "_" + strings.ReplaceAll(p.Version, ":", "%3a") + "_" + p.SHA256[:12]
}

// apt resolves and downloads packages with the host's apt, as any user: it writes only below dir.
type apt struct {
	dir      string // private directory
	private  bool   // use a package index of our own, because the host has none
	progress func(string, ...any)
}

// options that every command gets.
func (a *apt) options() []string {
	o := []string{"-q", "-o", "Acquire::Retries=3"}
	if os.Geteuid() == 0 {
		// As root, apt would download as a user that cannot write to a private directory.
		o = append(o, "-o", "APT::Sandbox::User=root")
	}
	if a.private {
		state := filepath.Join(a.dir, aptDir)
		o = append(o, "-o", "Dir::State::lists="+filepath.Join(state, "lists"), "-o", "Dir::Cache="+filepath.Join(state, "cache"))
	}
	return o
}

func (a *apt) run(ctx context.Context, dir, tool string, args ...string) ([]byte, error) {
	path, err := exec.LookPath(tool)
	if err != nil {
		return nil, fmt.Errorf("%s not found: the guest's kernel comes from the archive of the distribution, so building the image needs apt (Debian 12 or later, or Ubuntu)", tool)
	}
	cmd := exec.CommandContext(ctx, path, append(a.options(), args...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LC_ALL=C.UTF-8")
	var out, msg bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &msg
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("%s %s: %w\n%s", tool, strings.Join(args, " "), err, lastLines(msg.String(), 5))
	}
	return out.Bytes(), nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}

// update fetches a package index into the private directory.
func (a *apt) update(ctx context.Context) error {
	a.private = true
	a.progress("Fetching the package index (the host's is missing or out of date)")
	for _, d := range []string{"lists/partial", "cache/archives/partial"} {
		if err := os.MkdirAll(filepath.Join(a.dir, aptDir, d), 0o755); err != nil {
			return err
		}
	}
	_, err := a.run(ctx, a.dir, "apt-get", "update")
	return err
}

// resolve returns the packages of the kernel and the shell of the host's suite.
func (a *apt) resolve(ctx context.Context) (kernel []debPackage, shell debPackage, err error) {
	specs, err := a.kernelPackages(ctx)
	if errors.Is(err, errNoPackage) && !a.private {
		if err = a.update(ctx); err == nil {
			specs, err = a.kernelPackages(ctx)
		}
	}
	if err != nil {
		return nil, shell, fmt.Errorf("find the guest's kernel: %w", err)
	}
	all, err := a.describe(ctx, append(specs, shellPackage)...)
	if err != nil {
		return nil, shell, fmt.Errorf("find the guest's kernel and shell: %w", err)
	}
	return all[:len(specs)], all[len(specs)], nil
}

// kernelPackages names the packages of the current kernel: the image and, where the suite has
// them apart, its modules.
func (a *apt) kernelPackages(ctx context.Context) (specs []string, err error) {
	for _, meta := range kernelMetas {
		fields, err := a.show(ctx, meta)
		if errors.Is(err, errNoPackage) {
			continue
		}
		if err != nil {
			return nil, err
		}
		image, ok := firstDependency(fields[0]["Depends"])
		if !ok {
			return nil, fmt.Errorf("cannot read the dependency %q of %s", fields[0]["Depends"], meta)
		}
		specs = append(specs, image)
		if fields, err = a.show(ctx, image); err != nil {
			return nil, err
		}
		for d := range strings.SplitSeq(fields[0]["Depends"], ",") {
			if name, _, _ := strings.Cut(strings.TrimSpace(d), " "); strings.HasPrefix(name, modulesPrefix) {
				specs = append(specs, name)
			}
		}
		return specs, nil
	}
	return nil, fmt.Errorf("%s: %w", strings.Join(kernelMetas, ", "), errNoPackage)
}

// errNoPackage reports that the package index does not have a package, or that there is no index.
var errNoPackage = errors.New("not in the package index")

// show returns the fields of the candidate versions of packages, in order.
func (a *apt) show(ctx context.Context, packages ...string) (all []map[string]string, err error) {
	out, err := a.run(ctx, a.dir, "apt-cache", append([]string{"show", "--no-all-versions"}, packages...)...)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	for text := range strings.SplitSeq(string(out), "\n\n") {
		if strings.TrimSpace(text) != "" {
			all = append(all, stanza(text))
		}
	}
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		return nil, err
	case err != nil || len(all) < len(packages):
		return nil, fmt.Errorf("%s: %w", strings.Join(packages, " "), errNoPackage)
	}
	return all[:len(packages)], nil
}

// describe returns the descriptions of packages in the index.
func (a *apt) describe(ctx context.Context, packages ...string) (all []debPackage, err error) {
	fields, err := a.show(ctx, packages...)
	if err != nil {
		return nil, err
	}
	for i, f := range fields {
		p := debPackage{Name: f["Package"], Version: f["Version"], SHA256: f["SHA256"]}
		p.Size, err = strconv.ParseInt(f["Size"], 10, 63)
		if err != nil || p.Name == "" || p.Version == "" || len(p.SHA256) != 2*sha256.Size || strings.Contains(p.Name+p.Version, "/") {
			return nil, fmt.Errorf("the package index has no full description of %s", packages[i])
		}
		all = append(all, p)
	}
	return all, nil
}

// stanza parses the first paragraph of deb822 text. Continuation lines are dropped.
func stanza(s string) map[string]string {
	fields := map[string]string{}
	for line := range strings.Lines(s) {
		line = strings.TrimRight(line, "\n")
		if line == "" {
			break
		}
		if name, value, ok := strings.Cut(line, ":"); ok && line[0] != ' ' && line[0] != '\t' {
			fields[name] = strings.TrimSpace(value)
		}
	}
	return fields
}

// firstDependency parses "name (= version), …" or "name, …", where name is a kernel's. It returns
// name=version or name, as apt takes them.
func firstDependency(depends string) (spec string, ok bool) {
	first, _, _ := strings.Cut(depends, ",")
	first, _, _ = strings.Cut(first, "|")
	name, rest, exact := strings.Cut(strings.TrimSpace(first), " (= ")
	if !strings.HasPrefix(name, "linux-image-") || strings.Contains(name, " ") {
		return "", false
	}
	if !exact {
		return name, true
	}
	version, ok := strings.CutSuffix(rest, ")")
	return name + "=" + version, ok
}

// errDownload reports that the archive did not return a package that the index has.
var errDownload = errors.New("download")

// download fetches packages into dir, checks them against the index and returns their paths.
func (a *apt) download(ctx context.Context, packages []debPackage, dir string) (files []string, err error) {
	args, size := []string{"download"}, int64(0)
	for _, p := range packages {
		args, size = append(args, p.Name+"="+p.Version), size+p.Size
	}
	what := fmt.Sprintf("%d packages", len(packages))
	if len(packages) == 1 {
		what = packages[0].Name + " " + packages[0].Version
	}
	a.progress("Downloading %s (%.1f MB)", what, float64(size)/1e6)
	if _, err := a.run(ctx, dir, "apt-get", args...); err != nil {
		return nil, fmt.Errorf("%w %s: %w", errDownload, what, err)
	}
	for _, p := range packages {
		found, err := filepath.Glob(filepath.Join(dir, p.Name+"_*.deb"))
		if err != nil || len(found) != 1 {
			return nil, fmt.Errorf("download %s: apt-get left %d files, want 1", p.Name, len(found))
		}
		if err := p.verify(found[0]); err != nil {
			return nil, err
		}
		files = append(files, found[0])
	}
	return files, nil
}

// verify compares a file with the index.
func (p debPackage) verify(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		return err
	}
	if sum := hex.EncodeToString(h.Sum(nil)); n != p.Size || sum != p.SHA256 {
		return fmt.Errorf("%s has %d bytes and SHA256 %s, but the package index says %d and %s: try again, and if it stays so distrust the mirror", filepath.Base(path), n, sum, p.Size, p.SHA256)
	}
	return nil
}

// resolution is what was resolved last, kept so that apt is asked only when its index has changed.
type resolution struct {
	Stamp  string
	Kernel []debPackage
	Shell  debPackage
	// Closures are packages and all that they depend on, by the names that were asked for.
	Closures map[string][]debPackage `json:",omitempty"`
}

// resolveCached is resolve with a memory in dir.
func (a *apt) resolveCached(ctx context.Context) (kernel []debPackage, shell debPackage, err error) {
	last := a.recall()
	stamp := aptStamp()
	if last.Stamp == stamp && !a.private {
		return last.Kernel, last.Shell, nil
	}
	kernel, shell, err = a.resolve(ctx)
	if err != nil && ctx.Err() == nil && len(last.Kernel) > 0 { // without a network what is there still boots
		a.progress(fmt.Sprintf("Taking the packages that were found last, since there is no newer index (%s)", lastLines(err.Error(), 1)))
		return last.Kernel, last.Shell, nil
	}
	if err != nil {
		return kernel, shell, err
	}
	return kernel, shell, a.remember(resolution{Stamp: stamp, Kernel: kernel, Shell: shell})
}

func (a *apt) remember(r resolution) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return writeFile(a.memory(), bytes.NewReader(b), 0o644)
}

func (a *apt) memory() string { return filepath.Join(a.dir, "resolved.json") }

// recall returns what was resolved last; nothing where that is damaged.
func (a *apt) recall() (last resolution) {
	b, err := os.ReadFile(a.memory())
	damaged := func(p debPackage) bool { return len(p.SHA256) != 2*sha256.Size }
	if err != nil || json.Unmarshal(b, &last) != nil || len(last.Kernel) == 0 || slices.ContainsFunc(last.Kernel, damaged) || damaged(last.Shell) {
		return resolution{}
	}
	return last
}

// closureCached describes packages and all that they depend on. It comes after
// resolveCached, whose memory it adds to.
func (a *apt) closureCached(ctx context.Context, names []string) ([]debPackage, error) {
	if len(names) == 0 {
		return nil, nil
	}
	last, key := a.recall(), strings.Join(names, " ")
	if all := last.Closures[key]; len(all) > 0 && !a.private {
		return all, nil
	}
	all, err := a.closure(ctx, names)
	if old := last.Closures[key]; err != nil && ctx.Err() == nil && len(old) > 0 {
		return old, nil // as resolveCached
	}
	if err != nil {
		return nil, fmt.Errorf("find the packages of the image: %w", err)
	}
	if last.Stamp == "" { // nothing was remembered, so that apt is asked again
		return all, nil
	}
	if last.Closures == nil {
		last.Closures = map[string][]debPackage{}
	}
	last.Closures[key] = all
	return all, a.remember(last)
}

// closure asks apt what it would install on a system that has nothing yet.
func (a *apt) closure(ctx context.Context, names []string) ([]debPackage, error) {
	args := []string{"install", "--simulate", "--no-install-recommends",
		"-o", "Dir::State::status=/dev/null", "-o", "Dir::Cache::pkgcache=", "-o", "Dir::Cache::srcpkgcache="}
	out, err := a.run(ctx, a.dir, "apt-get", append(args, names...)...)
	if err != nil {
		return nil, err
	}
	var specs []string
	for line := range strings.Lines(string(out)) { // Inst NAME (VERSION ORIGIN [ARCHITECTURE])
		if f := strings.Fields(line); len(f) >= 3 && f[0] == "Inst" && strings.HasPrefix(f[2], "(") {
			specs = append(specs, f[1]+"="+f[2][1:])
		}
	}
	if len(specs) < len(names) {
		return nil, fmt.Errorf("apt-get would install %d packages for %s: its answer is in a form that is not known here", len(specs), strings.Join(names, " "))
	}
	slices.Sort(specs)
	return a.describe(ctx, specs...)
}

// aptStamp changes whenever apt's answer might. What an index of our own says is good until the next
// change of the host's.
func aptStamp() string {
	h := sha256.New()
	for _, p := range []string{"/etc/apt/sources.list", "/etc/apt/sources.list.d", "/etc/apt/preferences", "/etc/apt/preferences.d", "/etc/apt/apt.conf.d", "/var/lib/apt/lists"} {
		if st, err := os.Stat(p); err == nil {
			fmt.Fprintln(h, p, st.ModTime().UnixNano())
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
