package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/protojson"

	agentv1 "github.com/groupcast/groupcast/internal/gen/groupcast/agent/v1"
	groupv1 "github.com/groupcast/groupcast/internal/gen/groupcast/group/v1"
	"github.com/groupcast/groupcast/internal/testprocess"
)

// patience is how long anything may take that has no limit of its own.
const patience = 60 * time.Second

// Await waits until something holds.
func (n *Net) Await(what string, holds func() bool) {
	n.Helper()
	n.AwaitWithin(patience, what, holds)
}

// AwaitWithin waits until something holds, which must happen within a limit.
func (n *Net) AwaitWithin(limit time.Duration, what string, holds func() bool) {
	n.Helper()
	for end := time.Now().Add(limit); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			n.Fatalf("waited %v in vain until %s", limit, what)
		}
	}
}

// call runs the groupcast command on a machine, and returns its standard output.
func (n *Net) call(m *Machine, config string, args ...string) (stdout []byte, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	command := exec.CommandContext(ctx, testprocess.Binary(n, commands+"cli/cmd/groupcast"), append([]string{"--config", config}, args...)...)
	err = m.Do(func() error {
		stdout, err = command.Output()
		return err
	})
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("groupcast %s: %w: %s", strings.Join(args, " "), err, exit.Stderr)
	}
	return stdout, err
}

// run runs the groupcast command as the operator; it has to succeed.
func (n *Net) run(m *Machine, args ...string) []byte {
	n.Helper()
	stdout, err := n.call(m, n.access(), args...)
	n.must(err)
	return stdout
}

// list runs a command that lists something, and calls take with each item.
func (n *Net) list(what string, take func(text []byte) error) {
	n.Helper()
	var texts []json.RawMessage
	n.must(json.Unmarshal(n.run(n.Manager, what, "list", "-o", "json"), &texts))
	for _, text := range texts {
		n.must(take(text))
	}
}

// deliveries returns all deliveries, the newest first, without receipts.
func (n *Net) deliveries() (all []*groupv1.Delivery) {
	n.Helper()
	n.list("delivery", func(text []byte) error {
		all = append(all, new(groupv1.Delivery))
		return protojson.Unmarshal(text, all[len(all)-1])
	})
	return all
}

// Agent returns an agent as the managers know it; empty if they do not know it.
func (n *Net) Agent(name string) *agentv1.Agent {
	n.Helper()
	found := new(agentv1.Agent)
	n.list("agent", func(text []byte) error {
		agent := new(agentv1.Agent)
		err := protojson.Unmarshal(text, agent)
		if agent.GetName() == name {
			found = agent
		}
		return err
	})
	return found
}

// Delivery returns a delivery as the managers know it.
func (n *Net) Delivery(id string) *groupv1.Delivery {
	n.Helper()
	d := new(groupv1.Delivery)
	n.must(protojson.Unmarshal(n.run(n.Manager, "delivery", "get", id, "-o", "json"), d))
	return d
}

// Receipt returns a member's receipt for a delivery; empty if the managers have none.
func (n *Net) Receipt(p *Push, member string) *groupv1.Receipt {
	n.Helper()
	for _, r := range n.Delivery(p.ID).GetReceipts() {
		if r.GetMember() == member {
			return r
		}
	}
	return new(groupv1.Receipt)
}

// get returns a page of a machine's admin port.
func (n *Net) get(m *Machine, path string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
		return m.Dial(ctx, network, address)
	}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d%s", adminPort, path), nil)
	if err != nil {
		return "", err
	}
	answer, err := (&http.Client{Transport: transport}).Do(request)
	if err != nil {
		return "", err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", path, answer.Status, text)
	}
	return string(text), err
}

// Metrics returns what a machine's program counts, summed over labels.
func (n *Net) Metrics(m *Machine) (map[string]float64, error) {
	text, err := n.get(m, "/metrics")
	if err != nil {
		return nil, err
	}
	sums := make(map[string]float64)
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		name, _, _ := strings.Cut(line, " ")
		name, _, _ = strings.Cut(name, "{")
		value, err := strconv.ParseFloat(line[strings.LastIndex(line, " ")+1:], 64)
		if !strings.HasPrefix(line, "#") && err == nil {
			sums[name] += value
		}
	}
	return sums, nil
}

// Metric returns one of the Metrics, which must exist.
func (n *Net) Metric(name, metric string) float64 {
	n.Helper()
	all, err := n.Metrics(n.Machine(name))
	n.must(err)
	value, has := all[metric]
	if !has {
		n.Fatalf("%s has no metric %s", name, metric)
	}
	return value
}
