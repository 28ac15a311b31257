package roster

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/groupcast/groupcast/services/gatherer/sink"
)

// dueName is a directory beside those of clients, with a file for each command that has not ended: a gatherer that is started
// again runs these.
const dueName = ".groupcast-commands"

// due is a command that has not ended, and where that is noted. The file that it is to be run for is kept until letGo is called.
type due struct {
	Client string `json:"client"`
	Path   string `json:"path"`
	file   string
	letGo  func()
	note   string // empty if it could not be noted
}

// noteDue notes that a command is to be run.
func (r *Roster) noteDue(client string, one sink.Placed) due {
	d := due{Client: client, Path: one.Path, file: one.File, letGo: sink.Hold(one.File)} // the command may be run hours later
	text, err := json.Marshal(d)
	if err == nil {
		err = os.MkdirAll(filepath.Join(r.Dir, dueName), 0o750)
	}
	note := filepath.Join(r.Dir, dueName, rand.Text())
	if err == nil {
		err = os.WriteFile(note, text, 0o640)
	}
	if err != nil {
		r.Log.Warn("it could not be noted that a command is to be run: a restart forgets it", "file", one.File, "error", err)
		return d
	}
	d.note = note
	return d
}

// isDone forgets it.
func (d due) isDone() {
	if d.note != "" {
		_ = os.Remove(d.note) // if it stays, the command is run again
	}
}

// readDue returns the commands that an earlier process has left. If no command is configured any more, they are forgotten.
func readDue(dir string, runs bool) (all []due, err error) {
	notes := filepath.Join(dir, dueName)
	if !runs {
		return nil, os.RemoveAll(notes)
	}
	entries, err := os.ReadDir(notes)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read which commands are to be run: %w", err)
	}
	for _, entry := range entries {
		one := due{note: filepath.Join(notes, entry.Name())}
		text, err := os.ReadFile(one.note)
		if err != nil {
			return nil, fmt.Errorf("read which commands are to be run: %w", err)
		}
		if json.Unmarshal(text, &one) != nil { // it was cut off while it was written
			one.isDone()
			continue
		}
		one.file = filepath.Join(dir, one.Client, filepath.FromSlash(one.Path))
		all = append(all, one)
	}
	for i := range all { // before files are looked through for what need not stay
		all[i].letGo = sink.Hold(all[i].file)
	}
	return all, nil
}

// runDue runs the commands that an earlier process has left.
func (r *Roster) runDue(all []due) {
	for _, one := range all {
		if _, err := os.Lstat(one.file); err != nil {
			r.Log.Warn("a finished file is gone before the command was run for it", "client", one.Client, "file", one.file, "error", err)
			one.isDone()
			one.letGo()
			continue
		}
		r.queue(one)
	}
}
