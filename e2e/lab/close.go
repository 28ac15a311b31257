package lab

import (
	"errors"

	"golang.org/x/sys/unix"
)

// Close ends every process, every link and every namespace of the lab, and returns an error if a
// link broke on the way. It may be called again, and before Start.
func (l *Lab) Close() error {
	if !l.started {
		return nil
	}
	l.endProcesses()
	l.endLinks()
	errs := []error{l.broken, l.unmount(), l.endMulticast()}
	errs = append(errs, l.closeSpaces())
	if l.freeCores != nil {
		l.freeCores()
		l.freeCores = nil
	}
	return errors.Join(errs...)
}

func (l *Lab) closeSpaces() error {
	var errs []error
	for _, s := range l.spaces {
		errs = append(errs, s.close())
	}
	l.spaces = nil
	for _, h := range l.hosts {
		h.space = nil
	}
	for _, lan := range l.lans {
		lan.space = nil
	}
	return errors.Join(errs...)
}

func (l *Lab) endMulticast() error {
	var errs []error
	for _, h := range l.hosts {
		if h.multicast != nil {
			errs = append(errs, h.multicast.close())
			h.multicast = nil
		}
	}
	return errors.Join(errs...)
}

func (l *Lab) unmount() error {
	var errs []error
	for _, h := range l.hosts {
		if h.mounted != nil {
			errs = append(errs, h.mounted.close())
			h.mounted = nil
		}
	}
	return errors.Join(errs...)
}

func (l *Lab) endLinks() {
	for _, wire := range l.links {
		for _, way := range wire.ways {
			if way != nil {
				way.Stop()
			}
		}
	}
	l.carriers.Wait()
	for _, wire := range l.links {
		for side := range wire.ways {
			if wire.ways[side] != nil {
				_ = wire.ways[side].Close()
				wire.ways[side] = nil
			}
			if wire.tapped[side] >= 0 {
				_ = unix.Close(wire.tapped[side])
				wire.tapped[side] = -1
			}
		}
	}
}
