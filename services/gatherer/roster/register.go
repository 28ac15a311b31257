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
	"github.com/groupcast/groupcast/internal/object"
)

// registerName is the register's file, beside the clients' directories, which are no files.
const registerName = ".groupcast-clients"

// register remembers over restarts which process each client was last, and of which role: a process that another has replaced
// stays replaced, even if it is back first. There is a line for each client that ever came, as there is a directory:
//
//	NAME MARK ROLE
//
// Lines of earlier versions have no role, and earlier versions take no lines that have one.
//
// Neither noting something nor asking waits for the disk: write, which whoever notes something calls after it, has it outlive a kill, and
// save, which runs beside all that, a power cut.
type register struct {
	path string
	sync func(*os.File) error

	disk sync.Mutex // of what is done with the file; before mu

	mu      sync.Mutex
	entries map[string]entry // by client
	file    *os.File         // where lines are added: a client's last line counts
	lines   int
	noted   []byte // lines that are not written
	late    []byte // lines noted since the last rewrite began
	unsaved bool
	stale   bool // the file has to be rewritten before anything is added to it
}

// entry is what is known of a client.
type entry struct {
	mark string        // of its process; noMark if that did not tell it
	role identity.Role // empty if none is known: only operators came, or earlier versions wrote it
}

const noMark = "-"

func (e entry) append(to []byte, client string) []byte {
	return append(bytes.TrimRight(fmt.Appendf(to, "%s %s %s", client, e.mark, e.role), " "), '\n')
}

// parseEntry reads a line.
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

// spareLines is how many lines there may be beyond twice as many as count.
const spareLines = 1000

// openRegister reads the register of a directory, and rewrites it if need be; if the disk is full, save does that later.
func openRegister(dir string) (*register, error) {
	r := &register{path: filepath.Join(dir, registerName), sync: (*os.File).Sync, entries: make(map[string]entry)}
	text, err := os.ReadFile(r.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read which processes clients are: %w", err)
	}
	if err != nil {
		if err := r.adopt(dir); err != nil {
			return nil, err
		}
	}
	if r.read(text); err == nil && !r.stale && !r.isLong() {
		r.file, err = os.OpenFile(r.path, os.O_APPEND|os.O_WRONLY, 0)
		return r, err
	}
	r.stale = true
	if err := r.rewrite(); err != nil && !noroom.Is(err) {
		return nil, err
	}
	return r, nil
}

// adopt takes all directories of a store without a register for those of clients, if clients can have their names.
func (r *register) adopt(dir string) error {
	all, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("find clients' directories: %w", err)
	}
	for _, one := range all {
		if one.IsDir() && identity.CheckName(one.Name()) == nil {
			r.entries[one.Name()] = entry{mark: noMark}
		}
	}
	return nil
}

// read takes the lines of a text, except for those that a power cut or a full disk has torn.
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

// isLong reports whether there are too many lines that no longer count.
func (r *register) isLong() bool { return r.lines > 2*len(r.entries)+spareLines }

// markOf returns what the register has of a process: a hash, since the process's own text can be anything.
func markOf(process string) string {
	sum := sha256.Sum256([]byte(process))
	return fmt.Sprintf("%x", sum[:16])
}

// roleOf returns a client's role, empty if none is known.
func (r *register) roleOf(client string) identity.Role {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.entries[client].role
}

// knows reports whether a client ever came.
func (r *register) knows(client string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.entries[client]
	return known
}

// isOther reports whether a process comes back as a client that another process is by now.
func (r *register) isOther(client string, role identity.Role, by Process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e, known := r.entries[client]
	if !known || e.mark == noMark || e.role != "" && role != "" && e.role != role {
		return false
	}
	return by.Returns && by.Incarnation != "" && e.mark != markOf(by.Incarnation)
}

// isSame reports whether a process is the one that a client was last.
func (r *register) isSame(client string, by Process) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return by.Incarnation != "" && r.entries[client].mark == markOf(by.Incarnation)
}

// enter notes which process a client is from now on, and of which role, unless role is empty. It reports whether that is new.
func (r *register) enter(client string, role identity.Role, by Process) (isNew bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	before, known := r.entries[client]
	next := before
	if by.Incarnation != "" {
		next.mark = markOf(by.Incarnation)
	}
	next.mark, next.role = cmp.Or(next.mark, noMark), cmp.Or(role, next.role)
	if known && next == before {
		return false
	}
	r.entries[client] = next
	r.lines, r.noted, r.late = r.lines+1, next.append(r.noted, client), next.append(r.late, client)
	return true
}

// write has what was noted outlive a kill, unless the file has to be rewritten: save tells what is in the way of that.
func (r *register) write() error {
	r.disk.Lock()
	defer r.disk.Unlock()
	r.mu.Lock()
	lines := r.noted
	r.noted = nil
	file, isStale := r.file, r.stale
	r.mu.Unlock()
	if len(lines) == 0 || isStale {
		return nil
	}
	_, err := file.Write(lines)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsaved = true                // not before: a save beside this would take it for done
	r.stale = r.stale || err != nil // half a line may be there
	return err
}

// save makes durable what was noted. It rewrites the file if something could not be written, or if it has become long.
func (r *register) save() error {
	_ = r.write() // if that fails, it is rewritten
	r.mu.Lock()
	isDue, file, unsaved := r.stale || r.isLong(), r.file, r.unsaved
	r.unsaved = false
	r.mu.Unlock()
	switch {
	case isDue:
		return r.rewrite()
	case !unsaved:
		return nil
	}
	err := r.sync(file)
	if err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stale = true // how much is on disk is not known
	}
	return err
}

// rewrite writes the lines that count into a new file, which replaces the present one once it is on disk.
func (r *register) rewrite() error {
	if err := r.replace(); err != nil {
		return fmt.Errorf("keep which processes clients are: %w", err)
	}
	return nil
}

func (r *register) replace() error {
	draft, err := os.OpenFile(r.path+".new", os.O_CREATE|os.O_TRUNC|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	text, lines := r.begin()
	_, err = draft.Write(text)
	if err == nil {
		err = r.sync(draft)
	}
	if err == nil {
		err = r.turnTo(draft, lines)
	}
	if err != nil {
		return errors.Join(err, draft.Close(), os.Remove(draft.Name()))
	}
	if err := object.SyncDirectory(filepath.Dir(r.path)); err != nil {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.stale = true // which of the two files a power cut would leave is not known
		return err
	}
	return nil
}

// begin returns the lines that count, and how many they are. Those that come from now on are late.
func (r *register) begin() (text []byte, lines int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, client := range slices.Sorted(maps.Keys(r.entries)) {
		text = r.entries[client].append(text, client)
	}
	r.late = nil
	return text, len(r.entries)
}

// turnTo adds the late lines to a new file, which is on disk but for these, and puts it in place of the present one. Lines that are noted
// meanwhile are written to that.
func (r *register) turnTo(draft *os.File, lines int) error {
	r.disk.Lock()
	defer r.disk.Unlock()
	r.mu.Lock()
	late := r.late
	r.mu.Unlock()
	if _, err := draft.Write(late); err != nil {
		return err
	}
	if err := os.Rename(draft.Name(), r.path); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.release()
	r.file, r.lines, r.stale, r.unsaved = draft, lines+bytes.Count(r.late, []byte("\n")), false, len(r.late) > 0
	return nil
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
