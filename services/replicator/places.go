package replicator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/groupcast/groupcast/internal/object"
	"github.com/groupcast/groupcast/internal/pulse"
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
	reserve                   uint64 // of each disk, for others
	disks                     disks
}

func newPlaces(config *Config) (*places, error) {
	p := &places{reserve: uint64(config.Reserve), disks: disks{patience: config.DiskPatience.Std()}}
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

// enter notes in ctx's pulse which disk a path is on. It is an error if that was given up: it is not touched then.
func (p *places) enter(ctx context.Context, path string) error {
	if _, err := p.follow(ctx, path); errors.Is(err, receive.ErrDiskStalled) {
		return err
	}
	return nil // whatever else is wrong, opening the path tells
}

// follow follows the links in a path, and has ctx's pulse know which disk is asked. None is asked that was given up.
func (p *places) follow(ctx context.Context, path string) (real string, err error) {
	return pulse.Resolve(path, func(disk pulse.Disk) error {
		pulse.Of(ctx).On(disk)
		return p.disks.check(disk)
	})
}

// sendable returns where what is to be sent really is, if that may be.
func (p *places) sendable(ctx context.Context, path string) (real string, err error) {
	if real, err = p.follow(ctx, path); err != nil {
		return "", err
	}
	if !p.isBelow(ctx, real, p.sources) {
		return "", notBelow(path, real, "sources", p.sources)
	}
	return real, nil
}

// source opens what is to be sent, if that may be; of a device, if so asked, what its file
// system uses.
func (p *places) source(ctx context.Context, path string, skipUnused bool) (send.Opened, error) {
	real, err := p.sendable(ctx, path)
	if err != nil {
		return nil, err
	}
	opened, err := openSource(ctx, real, skipUnused)
	if err != nil {
		return nil, err
	}
	return named{opened, nameOf(path)}, nil
}

func openSource(ctx context.Context, path string, skipUnused bool) (send.Opened, error) {
	switch {
	case skipUnused:
		return device.OpenUsed(ctx, path)
	case device.IsDevice(path):
		return device.OpenSource(path)
	}
	return send.OpenObject(ctx, path)
}

// named is a source under the name by which it was asked for. What a link leads to may be called otherwise, and something else tomorrow.
type named struct {
	send.Opened
	name string
}

func (n named) Info() object.Info {
	info := n.Opened.Info()
	info.Name = n.name
	return info
}

func (n named) Beside(ctx context.Context) send.Opened { return named{n.Opened.Beside(ctx), n.name} }

// nameOf returns the name under which what a path names appears at replicas.
func nameOf(path string) string { return filepath.Base(filepath.Clean(path)) }

// landing opens where something lands, if it may there.
func (p *places) landing(ctx context.Context, path, serial string, info object.Info) (receive.Landing, error) {
	if err := p.enter(ctx, path); err != nil {
		return nil, err
	}
	if device.IsDevice(path) {
		return device.Land(ctx, p.target(path, serial), info)
	}
	if serial != "" {
		return nil, fmt.Errorf("%w: %s is no block device, so it has no serial number", errNotAllowed, path)
	}
	real, err := p.directory(ctx, path)
	if err != nil {
		return nil, err
	}
	return receive.LandObject(object.Leaving(ctx, p.reserve), real, info)
}

func (p *places) target(path, serial string) device.Target {
	return device.Target{Path: path, Allowed: p.devices, Serial: serial, State: p.state}
}

// found returns what may be what is replicated already, if it may be written there: nil if nothing may.
func (p *places) found(ctx context.Context, path, serial string, info object.Info) (receive.Landing, error) {
	if err := p.enter(ctx, path); err != nil {
		return nil, err
	}
	if device.IsDevice(path) {
		return receive.InspectDevice(ctx, p.target(path, serial), info)
	}
	real, err := p.directory(ctx, path)
	if err != nil {
		return nil, err
	}
	return receive.InspectObject(ctx, real, info)
}

// directory makes a directory in which something is to land, if it may there. As a rule its path tells below which of the targets, and
// none of the others is touched: one whose disk does not answer is in the way of no other.
func (p *places) directory(ctx context.Context, path string) (real string, err error) {
	path = filepath.Clean(path)
	if own, _ := apart(path, p.targets); len(own) > 0 {
		if real, err = p.directoryIn(ctx, path, own); !errors.Is(err, errNotAllowed) {
			return real, err
		}
	}
	return p.directoryIn(ctx, path, p.targets)
}

func (p *places) directoryIn(ctx context.Context, path string, targets []string) (real string, err error) {
	for _, target := range targets { // those that were named are made
		if p.enter(ctx, target) != nil {
			continue // it is not touched; if the path is on its disk, that is told below
		}
		if err := os.MkdirAll(target, 0o750); err != nil {
			return "", err
		}
	}
	real, err = p.follow(ctx, path)
	switch {
	case errors.Is(err, pulse.ErrDangling):
		return "", fmt.Errorf("%w: %w", errNotAllowed, err)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return "", err
	}
	if !p.isBelow(ctx, real, targets) {
		return "", notBelow(path, real, "targets", targets)
	}
	return real, os.MkdirAll(real, 0o750)
}

// isBelow reports whether a path without links is one of those that are allowed, or below it. Those that it is below by their names are
// looked at first: others may be on disks that do not answer.
func (p *places) isBelow(ctx context.Context, path string, allowed []string) bool {
	defer func() { pulse.Of(ctx).On(pulse.DiskOf(path)) }() // that is asked from now on
	own, others := apart(path, allowed)
	for _, one := range append(own, others...) {
		if real, err := p.follow(ctx, one); err == nil && isWithin(path, real) {
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

// notBelow says that a path, or what links in it lead to, is none of those that the setting allows.
func notBelow(path, real, setting string, allowed []string) error {
	if path = filepath.Clean(path); path != real {
		path += " leads to " + real + ", which"
	}
	return fmt.Errorf("%w: %s is not below one of %s (%s) in the configuration of this replicator", errNotAllowed, path, setting, orNone(allowed))
}

func orNone(paths []string) string {
	if len(paths) == 0 {
		return "none"
	}
	return strings.Join(paths, ", ")
}
