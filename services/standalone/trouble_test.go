package standalone_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/groupcast/groupcast/sdk"
)

// managersOnly dials only managers, as from where the agents' network is out of reach.
type managersOnly struct{ manager string }

func (m managersOnly) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	if address != m.manager {
		return nil, errors.New("no route to host")
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// A sender that cannot reach its agent is told which agent that is, and why.
func TestSenderThatReachesNoAgent(t *testing.T) {
	config, err := sdk.ReadConfig(start(t))
	if err != nil {
		t.Fatal(err)
	}
	client, err := sdk.Dial(config, sdk.WithDialer(managersOnly{config.Endpoints[0]}))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	p := newPartiesOf(t, client)
	if _, err := client.CreateGroup(p.ctx, "g", sdk.Policy{}); err != nil {
		t.Fatal(err)
	}
	p.join("receiver", sdk.Receive)
	sender := p.join("sender", sdk.Send)
	out, err := sender.Send(p.ctx, p.file, sdk.SendOptions{Name: filepath.Base(p.file)})
	if err != nil {
		t.Fatal(err)
	}
	for out.Trouble() == nil || !strings.Contains(out.Trouble().Error(), "no route to host") {
		if p.ctx.Err() != nil {
			t.Fatalf("it is in trouble as %v", out.Trouble())
		}
		time.Sleep(50 * time.Millisecond)
	}
}
