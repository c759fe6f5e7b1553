package oci

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
)

// Bounds on what a program of the image gets in its environment.
const (
	maxEnv      = 512
	maxEnvBytes = 32 << 10
)

// Config is what an image says of how its programs run. Entry point, command and user are not in it:
// a guest runs what `pvdrm up` is given, as root.
type Config struct {
	Env []string `json:",omitempty"` // NAME=VALUE
	Dir string   `json:",omitempty"` // where programs start: an absolute path, or empty
}

// Config returns the image's configuration.
func (i *Image) Config() (Config, error) {
	file, err := i.img.ConfigFile()
	if err != nil {
		return Config{}, fmt.Errorf("the image's configuration: %w", err)
	}
	c := Config{Env: file.Config.Env, Dir: file.Config.WorkingDir}
	return c, c.check()
}

// check refuses what no guest takes.
func (c *Config) check() error {
	size := 0
	for _, e := range c.Env {
		name, _, ok := strings.Cut(e, "=")
		if !ok || name == "" || strings.IndexByte(e, 0) >= 0 {
			return fmt.Errorf("the image's configuration has a variable %.60q: it wants NAME=VALUE", e)
		}
		size += len(e)
	}
	if len(c.Env) > maxEnv || size > maxEnvBytes {
		return fmt.Errorf("the image's configuration has %d variables with %d bytes: a guest takes %d with %d", len(c.Env), size, maxEnv, maxEnvBytes)
	}
	if c.Dir == "" {
		return nil
	}
	if len(c.Dir) > maxPath || strings.IndexByte(c.Dir, 0) >= 0 {
		return fmt.Errorf("the image's working directory is a path of %d bytes", len(c.Dir))
	}
	c.Dir = path.Join("/", c.Dir)
	return nil
}

// ReadConfig decodes what json.Marshal made of a Config.
func ReadConfig(text []byte) (c Config, err error) {
	if err := json.Unmarshal(text, &c); err != nil {
		return Config{}, fmt.Errorf("an image's configuration: %w", err)
	}
	return c, c.check()
}
