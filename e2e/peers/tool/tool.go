// Package tool contains the programs that are compared: each moves one file, or what has changed in a directory, from a sender to receivers.
package tool

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/sdk"
)

// Tool is one way to get a file to many, or a directory of which they have an earlier version.
type Tool interface {
	Name() string
	// Programs returns the programs that must be installed.
	Programs() []string
	// Multicast reports whether the tool works only within one LAN.
	Multicast() bool
	// Prepare starts what must be running before the delivery. It is not timed.
	Prepare(context.Context, *Job) error
	// Deliver returns when every receiver has all of what is sent.
	Deliver(context.Context, *Job) error
}

// Closer is a tool that leaves something to end, even after an error.
type Closer interface{ Close() error }

// All returns every tool that is compared.
func All() []Tool {
	return []Tool{
		&groupcast{plane: sdk.Plaintext}, &groupcast{plane: sdk.TLS}, &groupcast{plane: sdk.TLS, congestion: sdk.BBR},
		&groupcast{plane: sdk.Plaintext, changes: true}, &groupcast{plane: sdk.TLS, changes: true},
		&replicator{}, &replicator{slow: "detach"},
		&udpcast{},
		uftp{},
		nginxCurl{},
		nginxCurl{hash: "b3sum"},
		nginxCurl{hash: "sha256sum"},
		nginxCurl{hash: "b3sum", tls: true},
		rsync{},
		&aria2{},
	}
}

// Missing names the programs of t that are not installed.
func Missing(t Tool) []string {
	var missing []string
	for _, program := range t.Programs() {
		if _, err := exec.LookPath(program); err != nil {
			missing = append(missing, program)
		}
	}
	return missing
}

// FileName is the name of the file or directory on every disk.
const FileName = "payload"

// Job is one delivery. Every host has a disk with room for what is sent; that is on the sender's.
type Job struct {
	Sender    *lab.Host
	Receivers []*lab.Host
	Rate      link.Rate // of every host's link
	Size      link.Bytes
	Directory bool // every receiver has an earlier version: a file that has not changed has the same time there, and any other a later one
	Disks     map[*lab.Host]*lab.Disk

	// Only for our own tool: a host for the manager, those for agents, and the zones of agents and receivers.
	Manager *lab.Host
	Agents  []*lab.Host
	Zones   map[*lab.Host]string
}

// Has reports whether a receiver's file has its final name and size.
func (j *Job) Has(receiver *lab.Host) bool {
	state, err := os.Stat(j.Disks[receiver].Outside(FileName))
	return err == nil && link.Bytes(state.Size()) == j.Size
}

// path is where programs on a host find a file on its disk.
func path(name string) string { return filepath.Join(lab.DiskPath, name) }

// write puts a file on a host's disk, for a program to read.
func (j *Job) write(host *lab.Host, name, text string, mode os.FileMode) error {
	if err := os.WriteFile(j.Disks[host].Outside(name), []byte(text), mode); err != nil {
		return fmt.Errorf("write %s for %s: %w", name, host.Name(), err)
	}
	return nil
}

// start runs a program on a host until it or the lab ends.
func start(host *lab.Host, program string, arguments ...string) (*lab.Process, error) {
	p := host.Command(program, arguments...)
	p.Dir = "/"
	return p, p.Start()
}

// startAll runs the same program on all receivers.
func (j *Job) startAll(program string, arguments ...string) ([]*lab.Process, error) {
	var processes []*lab.Process
	for _, receiver := range j.Receivers {
		p, err := start(receiver, program, arguments...)
		if err != nil {
			return processes, err
		}
		processes = append(processes, p)
	}
	return processes, nil
}

// await waits for all processes and returns the first error, with what the program wrote.
func await(ctx context.Context, processes ...*lab.Process) error {
	var group sync.WaitGroup
	errs := make([]error, len(processes))
	for i, p := range processes {
		group.Go(func() {
			select {
			case <-ctx.Done():
				errs[i] = fmt.Errorf("%s: %w; it wrote: %s", p.Name, ctx.Err(), last(p.Output()))
			case <-p.Ended():
				if err := p.Wait(); err != nil {
					errs[i] = fmt.Errorf("%w; it wrote: %s", err, last(p.Output()))
				}
			}
		})
	}
	group.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// last returns the end of a program's output, which is where errors are.
func last(text string) string { return text[max(0, len(text)-400):] }
