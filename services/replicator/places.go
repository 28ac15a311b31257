package replicator

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/services/replicator/device"
	"github.com/groupcast/groupcast/services/replicator/receive"
	"github.com/groupcast/groupcast/services/replicator/send"
)

// errNotAllowed says that the configuration does not let a path be used.
var errNotAllowed = errors.New("not allowed here")

// places is what may be sent and written: whoever may begin replications gets no further.
type places struct {
	sources, targets, devices []string
	state                     string
}

func newPlaces(config *Config) (*places, error) {
	p := new(places)
	var err error
	if p.sources, err = absolute(config.Sources...); err != nil {
		return nil, fmt.Errorf("sources: %w", err)
	}
	if p.targets, err = absolute(config.Targets...); err != nil {
		return nil, fmt.Errorf("targets: %w", err)
	}
	if p.devices, err = absolute(config.Devices...); err != nil {
		return nil, fmt.Errorf("devices: %w", err)
	}
	if config.State != "" {
		if err := os.MkdirAll(config.State, 0o700); err != nil {
			return nil, fmt.Errorf("state: %w", err)
		}
		p.state = config.State
	}
	return p, nil
}

// source is what is sent.
type source interface {
	send.Source
	io.Closer
}

// sendable returns where what is to be sent really is, if that may be.
func (p *places) sendable(path string) (real string, err error) {
	if real, err = filepath.EvalSymlinks(path); err != nil {
		return "", err
	}
	if !isBelow(real, p.sources) {
		return "", fmt.Errorf("%w: %s is not below one of sources (%s) in the configuration of this replicator", errNotAllowed, path, orNone(p.sources))
	}
	return real, nil
}

// source opens what is to be sent, if that may be; of a device, if so asked, what its file
// system uses.
func (p *places) source(ctx context.Context, path string, skipUnused bool) (source, error) {
	real, err := p.sendable(path)
	switch {
	case err != nil:
		return nil, err
	case skipUnused:
		return device.OpenUsed(ctx, real)
	case device.IsDevice(real):
		return device.OpenSource(real)
	}
	return send.OpenObject(ctx, real)
}

// landing opens where something lands, if it may there.
func (p *places) landing(ctx context.Context, path, serial string, info object.Info) (receive.Landing, error) {
	if device.IsDevice(path) {
		return device.Land(ctx, p.target(path, serial), info)
	}
	if serial != "" {
		return nil, fmt.Errorf("%w: %s is no block device, so it has no serial number", errNotAllowed, path)
	}
	real, err := p.directory(path)
	if err != nil {
		return nil, err
	}
	return receive.LandObject(ctx, real, info)
}

func (p *places) target(path, serial string) device.Target {
	return device.Target{Path: path, Allowed: p.devices, Serial: serial, State: p.state}
}

// found returns what may be what is replicated already, if it may be written there: nil if nothing may.
func (p *places) found(ctx context.Context, path, serial string, info object.Info) (receive.Landing, error) {
	if device.IsDevice(path) {
		return receive.InspectDevice(ctx, p.target(path, serial), info)
	}
	real, err := p.directory(path)
	if err != nil {
		return nil, err
	}
	return receive.InspectObject(ctx, real, info)
}

// directory makes a directory in which something is to land, if it may there. As a rule its path tells below which of the targets, and
// none of the others is touched: one whose disk does not answer is in the way of no other.
func (p *places) directory(path string) (real string, err error) {
	path = filepath.Clean(path)
	if own, _ := apart(path, p.targets); len(own) > 0 {
		if real, err = directoryIn(path, own); !errors.Is(err, errNotAllowed) {
			return real, err
		}
	}
	return directoryIn(path, p.targets)
}

func directoryIn(path string, targets []string) (real string, err error) {
	for _, target := range targets { // those that were named are made
		if err := os.MkdirAll(target, 0o750); err != nil {
			return "", err
		}
	}
	if real, err = resolve(path); err != nil {
		return "", err
	}
	if !isBelow(real, targets) {
		return "", fmt.Errorf("%w: %s is not below one of targets (%s) in the configuration of this replicator", errNotAllowed, path, orNone(targets))
	}
	return real, os.MkdirAll(real, 0o750)
}

// resolve follows links in as much of a path as exists.
func resolve(path string) (string, error) {
	path = filepath.Clean(path)
	real, err := filepath.EvalSymlinks(path)
	if !errors.Is(err, fs.ErrNotExist) || path == filepath.Dir(path) {
		return real, err
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("%w: %s is a link to nothing", errNotAllowed, path)
	}
	above, err := resolve(filepath.Dir(path))
	return filepath.Join(above, filepath.Base(path)), err
}

// isBelow reports whether a path without links is one of those that are allowed, or below it. Those that it is below by their names are
// looked at first: others may be on disks that do not answer.
func isBelow(path string, allowed []string) bool {
	own, others := apart(path, allowed)
	for _, one := range append(own, others...) {
		if real, err := filepath.EvalSymlinks(one); err == nil && isWithin(path, real) {
			return true
		}
	}
	return false
}

// apart tells those directories that a path is in by its name from the others.
func apart(path string, directories []string) (own, others []string) {
	for _, one := range directories {
		if isWithin(path, one) {
			own = append(own, one)
		} else {
			others = append(others, one)
		}
	}
	return own, others
}

// isWithin reports whether a path is that of a directory, or of something in it, by their names.
func isWithin(path, directory string) bool {
	return path == directory || strings.HasPrefix(path, strings.TrimSuffix(directory, "/")+"/")
}

func orNone(paths []string) string {
	if len(paths) == 0 {
		return "none"
	}
	return strings.Join(paths, ", ")
}
