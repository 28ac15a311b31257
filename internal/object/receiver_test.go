package object_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/object"
)

// A receiver is this test's program once more, as a process that can be killed
// and stopped. It lets one generation after the other of a file and of a tree
// land, and prints what it begins and what is complete.
const (
	receiverVariable = "OBJECT_TEST_RECEIVER" // from, to, seed, first generation
	receiverFile     = "file"
	receiverTree     = "tree"
	generationsKept  = 8 // of what is sent
)

func receive() {
	arguments := strings.Split(os.Getenv(receiverVariable), "\n")
	seed, seedErr := strconv.ParseUint(arguments[2], 10, 64)
	first, firstErr := strconv.Atoi(arguments[3])
	if err := errors.Join(seedErr, firstErr); err != nil {
		panic(err)
	}
	object.SetClaims(64<<10, time.Millisecond)
	random := rand.New(rand.NewPCG(seed, 0))
	for generation := first; ; generation++ {
		name := []string{receiverFile, receiverTree}[generation%2]
		err := receiveOne(random, arguments[0], arguments[1], name, generation)
		if err == nil {
			err = os.RemoveAll(filepath.Join(arguments[0], fmt.Sprint(generation-2*generationsKept)))
		}
		if err != nil {
			fmt.Println("failed", err)
			os.Exit(1)
		}
	}
}

// receiveOne lets a generation of an object land. What is sent is made first, if
// no process before has done that.
func receiveOne(random *rand.Rand, from, to, name string, generation int) error {
	path := filepath.Join(from, fmt.Sprint(generation), name)
	if err := plantGeneration(path, generation); err != nil {
		return err
	}
	source, err := object.Open(context.Background(), path)
	if err != nil {
		return err
	}
	defer source.Close()
	root, err := source.Root(context.Background())
	if err != nil {
		return err
	}
	done, known, err := object.Existing(context.Background(), to, source.Info())
	if err != nil || known && done == root {
		return err
	}
	fmt.Println("begin", generation, name, root)
	for {
		landing, err := object.Land(context.Background(), to, source.Info())
		if err != nil {
			return err
		}
		fmt.Println("resume", landing.Offset())
		upTo := source.Info().Length
		if random.IntN(3) == 0 {
			upTo = landing.Offset() + random.Uint64N(upTo-landing.Offset()+1)
		}
		pieces := func(most int64) int64 { return min(most, 1+random.Int64N(100<<10)) }
		send := deliver
		if random.IntN(2) == 0 {
			send = deliverAhead
		}
		if err := send(source, landing, upTo, pieces); err != nil {
			return err
		}
		if upTo < source.Info().Length {
			if err := landing.Keep(); err != nil {
				return err
			}
			continue
		}
		if err := landing.Complete(upTo, root, true); err != nil {
			return err
		}
		fmt.Println("complete", generation, name, root)
		return nil
	}
}

func plantGeneration(path string, generation int) error {
	if _, err := os.Lstat(filepath.Dir(path)); err == nil {
		return nil
	}
	making := filepath.Dir(path) + "-making"
	if err := os.RemoveAll(making); err != nil {
		return err
	}
	random := rand.NewChaCha8([32]byte{byte(generation), byte(generation >> 8)})
	write := func(path string, size int) error {
		content := make([]byte, size)
		_, _ = random.Read(content)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		return os.WriteFile(path, content, 0o644)
	}
	it := filepath.Join(making, filepath.Base(path))
	if filepath.Base(path) == receiverFile {
		if err := write(it, 3<<20+generation); err != nil {
			return err
		}
	} else {
		for i := range 40 {
			if err := write(filepath.Join(it, fmt.Sprint("d", i%5), fmt.Sprint("f", i)), (i%4)*40<<10); err != nil {
				return err
			}
		}
	}
	return os.Rename(making, filepath.Dir(path))
}

// receiver is such a process, and what it has printed.
type receiver struct {
	*exec.Cmd
	mu       sync.Mutex
	begun    map[string]map[object.Root]int // name → root → generation
	complete map[string]int                 // the last generation
	resumed  int                            // landings that did not begin at the first byte
	failed   string
	reading  sync.WaitGroup
	speaks   chan struct{} // closed when it has begun to print
}

func newReceiver() *receiver {
	return &receiver{
		begun:    map[string]map[object.Root]int{receiverFile: {}, receiverTree: {}},
		complete: map[string]int{receiverFile: -1, receiverTree: -1},
	}
}

func (r *receiver) start(t *testing.T, from, to string, seed uint64, first int) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r.Cmd = exec.Command(program)
	r.Env = append(os.Environ(), fmt.Sprintf("%s=%s\n%s\n%d\n%d", receiverVariable, from, to, seed, first))
	r.Stderr, r.speaks = os.Stderr, make(chan struct{})
	output, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(); err != nil {
		t.Fatal(err)
	}
	r.reading.Go(func() {
		begin := sync.OnceFunc(func() { close(r.speaks) })
		for lines := bufio.NewScanner(output); lines.Scan(); begin() {
			r.note(lines.Text())
		}
	})
}

// awaitWord waits until the process is at work, which on a busy machine it is late.
func (r *receiver) awaitWord(t *testing.T) {
	t.Helper()
	select {
	case <-r.speaks:
	case <-time.After(time.Minute):
		t.Fatal("the receiver does not begin")
	}
}

func (r *receiver) note(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	words := strings.Fields(line)
	switch words[0] {
	case "begin", "complete":
		generation, _ := strconv.Atoi(words[1])
		if words[0] == "complete" {
			r.complete[words[2]] = generation
			return
		}
		r.begun[words[2]][parseRoot(words[3])] = generation
	case "resume":
		if words[1] != "0" {
			r.resumed++
		}
	case "failed":
		r.failed = line
	}
}

func parseRoot(text string) (root object.Root) {
	for i := range root {
		value, _ := strconv.ParseUint(text[2*i:2*i+2], 16, 8)
		root[i] = byte(value)
	}
	return root
}

// kill ends the process and waits until all that it has printed is noted.
func (r *receiver) kill() {
	_ = r.Process.Kill()
	r.reading.Wait()
	_ = r.Wait()
}

// finalRoot returns the root of what has a name; zero if nothing has.
func finalRoot(t *testing.T, to, name string) (root object.Root) {
	t.Helper()
	path := filepath.Join(to, name)
	if missing(path) {
		return root
	}
	source, err := object.Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	return rootOf(t, source)
}

// check says what is wrong with what the final names hold.
func (r *receiver) check(t *testing.T, to string, complete map[string]int) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failed != "" {
		t.Fatal(r.failed)
	}
	for name, last := range complete {
		root := finalRoot(t, to, name)
		if root == (object.Root{}) {
			if last >= 0 {
				t.Errorf("%s was complete as generation %d and is not there", name, last)
			}
			continue
		}
		generation, known := r.begun[name][root]
		if !known {
			t.Errorf("%s holds what nobody sent", name)
		} else if generation < last {
			t.Errorf("%s was complete as generation %d and is %d", name, last, generation)
		}
	}
}
