package roster

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/noroom"
)

// registerName is the register's file, beside the clients' directories, which are no files.
const registerName = ".groupcast-clients"

// register remembers which process was each client last, over restarts: one that was cut off when another took its place
// finds it taken, whoever is back first. There is a line for each client that ever came, as there is a directory.
type register struct {
	path string

	mu      sync.Mutex
	marks   map[string]string // of processes, by client
	file    *os.File          // that lines are added to: the last one of a client counts
	lines   int
	unsaved bool
	stale   bool // the file has to be written anew before anything is added to it
}

// spareLines are how many lines there may be beyond twice those that count.
const spareLines = 1000

// openRegister reads the register of a directory. It is written anew where it has to be, or later if the disk is full.
func openRegister(dir string) (*register, error) {
	r := &register{path: filepath.Join(dir, registerName), marks: make(map[string]string)}
	text, err := os.ReadFile(r.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read which processes clients are: %w", err)
	}
	if r.read(text); err == nil && !r.stale && !r.isLong() {
		return r, r.reopen()
	}
	if err := r.rewrite(); err != nil && !noroom.Is(err) {
		return nil, err
	}
	return r, nil
}

// read takes the lines of a text, but for those that a power cut or a full disk tore.
func (r *register) read(text []byte) {
	r.stale = len(text) > 0 && text[len(text)-1] != '\n'
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); r.lines++ {
		name, mark, _ := bytes.Cut(lines.Bytes(), []byte(" "))
		if len(mark) == len(markOf("")) {
			r.marks[string(name)] = string(mark)
		} else {
			r.stale = true
		}
	}
}

// isLong reports whether more lines count no more than may.
func (r *register) isLong() bool { return r.lines > 2*len(r.marks)+spareLines }

// markOf is what is written of a process: it says of itself what it likes.
func markOf(process string) string {
	sum := sha256.Sum256([]byte(process))
	return fmt.Sprintf("%x", sum[:16])
}

// isOther reports whether a process comes back to a client that is another's by now.
func (r *register) isOther(client string, by Process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	mark, known := r.marks[client]
	return by.Returns && by.Incarnation != "" && known && mark != markOf(by.Incarnation)
}

// enter notes which process a client is from now on. A kill loses nothing of it; save has it outlive a power cut.
func (r *register) enter(client string, by Process) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	mark := markOf(by.Incarnation)
	if by.Incarnation == "" || r.marks[client] == mark {
		return nil
	}
	r.marks[client] = mark
	if r.stale || r.isLong() {
		return r.rewrite()
	}
	r.lines, r.unsaved = r.lines+1, true
	_, err := fmt.Fprintf(r.file, "%s %s\n", client, mark)
	r.stale = err != nil // half a line may be there
	return err
}

// save makes durable what was noted. What could not be written is written anew.
func (r *register) save() error {
	r.mu.Lock()
	if r.stale {
		defer r.mu.Unlock()
		return r.rewrite()
	}
	file, unsaved := r.file, r.unsaved
	r.unsaved = false
	r.mu.Unlock()
	if !unsaved {
		return nil
	}
	err := file.Sync()
	if err == nil || errors.Is(err, os.ErrClosed) { // it was rewritten meanwhile
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.stale = true // what of it is on disk is not known
	return err
}

// rewrite keeps the lines that count, with the register locked or not yet known.
func (r *register) rewrite() error {
	r.stale = true
	var text bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(r.marks)) {
		fmt.Fprintf(&text, "%s %s\n", name, r.marks[name])
	}
	err := identity.WriteFile(r.path, text.Bytes(), 0o600)
	if err != nil {
		return fmt.Errorf("keep which processes clients are: %w", err)
	}
	r.release()
	r.lines, r.unsaved = len(r.marks), false
	return r.reopen()
}

// reopen opens the file, to which nothing has to be done before lines are added.
func (r *register) reopen() (err error) {
	r.file, err = os.OpenFile(r.path, os.O_APPEND|os.O_WRONLY, 0)
	r.stale = err != nil
	return err
}

// close makes all durable, and lets the file go.
func (r *register) close() error {
	err := r.save()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release()
	return err
}

func (r *register) release() {
	if r.file != nil {
		_ = r.file.Close() // save has said what is wrong
	}
}
