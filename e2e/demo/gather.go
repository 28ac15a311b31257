package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	gatherv1 "github.com/groupcast/groupcast/internal/gen/groupcast/gather/v1"
	"github.com/groupcast/groupcast/internal/pause"
)

// The network of the second part: four clients, and one link to the gatherer that all
// of them share.
const (
	sharedRate  = 8 * link.Mbit
	sharedQueue = 64 * link.KiB
	gatherPort  = 7420
	// settle is how long it takes until windows have an effect and clients fill the link. After that what they get is counted.
	settle, counted = 6 * time.Second, 4 * time.Second
)

// wards have priority; archives are near and have short round trips, which TCP prefers.
var clients = []struct {
	name  string
	delay time.Duration
}{
	{"ward-1", 40 * time.Millisecond},
	{"ward-2", 60 * time.Millisecond},
	{"archive-1", 3 * time.Millisecond},
	{"archive-2", 5 * time.Millisecond},
}

const gatherPolicy = `rules:
- clients: [ward-*]
  target: 300kB      # 2.4 Mbit/s
  minimum: 150kB
  priority: 1
default:
  target: 100kB      # 0.8 Mbit/s
`

// gathering is the argument of the process that shows the second part, if that needs privileges of its own.
const gathering = "gathering"

// showGathering shows a gatherer and its clients over an emulated network. Without root it does so
// in a user namespace, if the machine allows it.
func showGathering(ctx context.Context, bin string) error {
	if os.Geteuid() == 0 {
		return gather(ctx, bin)
	}
	self := exec.CommandContext(ctx, "/proc/self/exe", gathering, bin)
	self.Stdout, self.Stderr = os.Stdout, os.Stderr
	self.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	if err := self.Start(); err != nil {
		return leaveOut("the gatherer with four clients", fmt.Errorf("that needs a network of its own: root, or user namespaces (%w)", err))
	}
	return self.Wait()
}

// leaveOut says which part is left out, and why. In CI that is an error: what was left out has not been shown.
func leaveOut(part string, why error) error {
	if os.Getenv("CI") != "" {
		return fmt.Errorf("left out: %s: %w", part, why)
	}
	fmt.Printf("\n# Left out: %s: %v.\n", part, why)
	return nil
}

// gather shows what four clients get, before and after the controller is switched on.
func gather(ctx context.Context, bin string) error {
	if err := lab.Missing(); err != nil {
		return leaveOut("the gatherer with four clients", err)
	}
	dir, err := os.MkdirTemp("", "groupcast-demo-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte(gatherPolicy), 0o600); err != nil {
		return err
	}
	fmt.Printf("\n# Many to one: four clients upload over one link of %v to a gatherer. Two of them come first.\n$ cat policy.yaml\n%s", sharedRate, gatherPolicy)
	fmt.Println("\n# TCP alone shares by chance and by distance, whoever comes first:")
	lacking, err := uploads(ctx, bin, dir, policy, "traditional")
	if err != nil {
		return err
	}
	fmt.Printf("# %s\n", conclude(lacking))
	fmt.Println("\n# The controller shows each client the window that its target takes, and nobody's TCP is changed:")
	if lacking, err = uploads(ctx, bin, dir, policy, "groupcast"); err != nil {
		return err
	}
	fmt.Printf("# %s\n", conclude(lacking))
	if len(lacking) > 0 && os.Getenv("CI") != "" {
		return fmt.Errorf("with the controller %s", conclude(lacking))
	}
	return nil
}

// conclude says who had less than the target.
func conclude(lacking []string) string {
	if len(lacking) == 0 {
		return fmt.Sprintf("All had their targets over these %v.", counted)
	}
	return fmt.Sprintf("Over these %v less than nine tenths of their targets had: %s.", counted, strings.Join(lacking, ", "))
}

// uploads makes all clients upload for a while, shows what they get, and returns who had less than nine tenths of its target.
func uploads(ctx context.Context, bin, dir, policy, controller string) (lacking []string, err error) {
	network := lab.New(1)
	defer network.Close()
	server, router := network.Host("gatherer"), network.Router("router")
	network.Link(router, server, link.Shape{Rate: sharedRate, Delay: time.Millisecond, Queue: link.Size(sharedQueue)})
	hosts := make([]*lab.Host, len(clients))
	for i, client := range clients {
		hosts[i] = network.Host(client.name)
		network.Link(hosts[i], router, link.Shape{Rate: 100 * link.Mbit, Delay: client.delay})
	}
	if err := network.Start(); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, controller)
	process := server.Command(filepath.Join(bin, "groupcast-standalone"), "--data", data, "--agents-count", "0",
		"--grpc-listen", "127.0.0.1:7400", "--admin-listen", "", "--log-level", "error", "--gatherer-policy-first", policy,
		"--gatherer-controller", controller, "--gatherer-grpc-listen", server.At(gatherPort), "--gatherer-data-listen", server.At(gatherPort+1))
	if err := process.Start(); err != nil {
		return nil, err
	}
	if err := awaitOutput(ctx, process, "ready: "); err != nil {
		return nil, err
	}
	fmt.Printf("$ groupcast-standalone --gatherer-policy-first policy.yaml --gatherer-controller %s\n", controller)
	access := filepath.Join(data, "admin.yaml")
	for i, client := range clients {
		upload := hosts[i].Command("/bin/sh", "-c", `"$0" --config "$1" upload - --name samples --as "$2" --to "$3" </dev/zero >/dev/null 2>&1`,
			filepath.Join(bin, "groupcast"), access, client.name, server.At(gatherPort))
		if err := upload.Start(); err != nil {
			return nil, err
		}
		fmt.Printf("$ sensor | groupcast upload - --name samples --as %s &\n", client.name)
	}
	list := func(flags ...string) (string, error) {
		arguments := append([]string{"--config", access, "gather", "clients", "--to", server.At(gatherPort)}, flags...)
		command := server.Command(filepath.Join(bin, "groupcast"), arguments...)
		err := command.Run()
		return command.Output(), err
	}
	if !pause.For(ctx, settle) {
		return nil, ctx.Err()
	}
	before, err := list("-o", "json")
	if err != nil {
		return nil, err
	}
	since := time.Now()
	if !pause.For(ctx, counted) {
		return nil, ctx.Err()
	}
	after, err := list("-o", "json")
	if err != nil {
		return nil, err
	}
	span := time.Since(since)
	fmt.Println("$ groupcast gather clients")
	table, err := list()
	if err != nil {
		return nil, err
	}
	fmt.Print(table)
	return lack(before, after, span)
}

// lack returns which clients had less than nine tenths of their targets between two lists of them.
func lack(before, after string, span time.Duration) (lacking []string, err error) {
	first, err := parseClients(before)
	if err != nil {
		return nil, err
	}
	last, err := parseClients(after)
	if err != nil {
		return nil, err
	}
	had := make(map[string]uint64)
	for _, client := range first {
		had[client.GetName()] = client.GetReceivedBytes()
	}
	for _, client := range last {
		rate := float64(client.GetReceivedBytes()-had[client.GetName()]) / span.Seconds()
		if rate < .9*float64(client.GetShare().GetTargetBytesPerSecond()) {
			lacking = append(lacking, client.GetName())
		}
	}
	return lacking, nil
}

// parseClients reads what `gather clients -o json` writes.
func parseClients(text string) ([]*gatherv1.Client, error) {
	var parts []json.RawMessage
	if err := json.Unmarshal([]byte(text), &parts); err != nil {
		return nil, err
	}
	all := make([]*gatherv1.Client, len(parts))
	for i, part := range parts {
		all[i] = new(gatherv1.Client)
		if err := protojson.Unmarshal(part, all[i]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// awaitOutput waits until a program has written something.
func awaitOutput(ctx context.Context, process *lab.Process, text string) error {
	for !strings.Contains(process.Output(), text) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-process.Ended():
			return fmt.Errorf("the server ended: %s", process.Output())
		case <-time.After(20 * time.Millisecond):
		}
	}
	return nil
}
