package object

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"github.com/groupcast/groupcast/internal/pulse"
)

// nameAttribute is the extended attribute of a partial's journal that has the object's name, which no tag tells. On a file system without
// such attributes, nobody tells.
const nameAttribute = "user.groupcast.name"

// mark notes the object's name, if the file system has room for it.
func (p *partial) mark(name string) {
	_ = unix.Fsetxattr(int(p.journal.file.Fd()), nameAttribute, []byte(name), 0)
}

// nameOf returns the name of a partial's object; empty if it is not known.
func nameOf(home folder) string {
	journal, err := home.OpenFile(journalName, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer journal.Close()
	var name [MaxElement]byte
	n, err := unix.Fgetxattr(int(journal.Fd()), nameAttribute, name[:])
	if err != nil {
		return ""
	}
	return string(name[:n])
}

// RemoveSuperseded removes from a directory the partials of an object's earlier states, which had another length or time: none goes on
// with them. It leaves those that are landing, and those whose name is not known. A pulse in ctx beats with what it does.
func RemoveSuperseded(ctx context.Context, dir string, by Info) error {
	own := tag(by)
	_, err := sweepAll(dir, pulse.Of(ctx), func(tag string, home folder) (bool, error) {
		return tag != own && nameOf(home) == by.Name, nil
	})
	return err
}

// RemoveUnfinished is RemoveSuperseded, and removes what has come of the object itself, too.
func RemoveUnfinished(ctx context.Context, dir string, of Info) error {
	own := tag(of)
	_, err := sweepAll(dir, pulse.Of(ctx), func(tag string, home folder) (bool, error) {
		return tag == own || nameOf(home) == of.Name, nil
	})
	return err
}
