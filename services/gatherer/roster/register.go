package roster

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/noroom"
)

// registerName is the register's file, beside the clients' directories, which are no files.
const registerName = ".groupcast-clients"

// register remembers which process was each client last, and of which role, over restarts: one that was cut off when another
// took its place finds it taken, whoever is back first. There is a line for each client that ever came, as there is a directory:
//
//	NAME MARK ROLE
//
// Lines of earlier versions have no role, and earlier versions take no lines that have one.
type register struct {
	path string

	mu      sync.Mutex
	entries map[string]entry // by client
	file    *os.File         // that lines are added to: the last one of a client counts
	lines   int
	unsaved bool
	stale   bool // the file has to be written anew before anything is added to it
}

// entry is what is known of a client.
type entry struct {
	mark string        // of its process; noMark if that did not say
	role identity.Role // empty if none is known: only operators came, or earlier versions wrote it
}

const noMark = "-"

func (e entry) append(to []byte, client string) []byte {
	return append(bytes.TrimRight(fmt.Appendf(to, "%s %s %s", client, e.mark, e.role), " "), '\n')
}

// parseEntry takes a line apart.
func parseEntry(line string) (client string, e entry, ok bool) {
	fields := strings.Fields(line)
	if len(fields) < 2 || len(fields) > 3 {
		return "", entry{}, false
	}
	if len(fields) == 3 {
		e.role = identity.Role(fields[2])
	}
	e.mark = fields[1]
	return fields[0], e, (e.mark == noMark || len(e.mark) == len(markOf(""))) && slices.Contains([]identity.Role{"", identity.Agent, identity.Member}, e.role)
}

// spareLines are how many lines there may be beyond twice those that count.
const spareLines = 1000

// openRegister reads the register of a directory. It is written anew where it has to be, or later if the disk is full.
func openRegister(dir string) (*register, error) {
	r := &register{path: filepath.Join(dir, registerName), entries: make(map[string]entry)}
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
		if client, e, ok := parseEntry(lines.Text()); ok {
			e.role = cmp.Or(e.role, r.entries[client].role) // a torn line lacks it
			r.entries[client] = e
		} else {
			r.stale = true
		}
	}
}

// isLong reports whether more lines count no more than may.
func (r *register) isLong() bool { return r.lines > 2*len(r.entries)+spareLines }

// markOf is what is written of a process: it says of itself what it likes.
func markOf(process string) string {
	sum := sha256.Sum256([]byte(process))
	return fmt.Sprintf("%x", sum[:16])
}

// roleOf returns the role of who is a client, empty if none is known.
func (r *register) roleOf(client string) identity.Role {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries[client].role
}

// isOther reports whether a process comes back to a client that is another's by now.
func (r *register) isOther(client string, role identity.Role, by Process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, known := r.entries[client]
	if !known || e.mark == noMark || e.role != "" && role != "" && e.role != role {
		return false
	}
	return by.Returns && by.Incarnation != "" && e.mark != markOf(by.Incarnation)
}

// enter notes which process a client is from now on, and of which role, if that is one. A kill loses nothing of it; save has it
// outlive a power cut.
func (r *register) enter(client string, role identity.Role, by Process) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.entries[client]
	next := before
	if by.Incarnation != "" {
		next.mark = markOf(by.Incarnation)
	}
	next.mark, next.role = cmp.Or(next.mark, noMark), cmp.Or(role, next.role)
	if known && next == before {
		return nil
	}
	r.entries[client] = next
	if r.stale || r.isLong() {
		return r.rewrite()
	}
	r.lines, r.unsaved = r.lines+1, true
	_, err := r.file.Write(next.append(nil, client))
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
	var text []byte
	for _, client := range slices.Sorted(maps.Keys(r.entries)) {
		text = r.entries[client].append(text, client)
	}
	err := identity.WriteFile(r.path, text, 0o600)
	if err != nil {
		return fmt.Errorf("keep which processes clients are: %w", err)
	}
	r.release()
	r.lines, r.unsaved = len(r.entries), false
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
