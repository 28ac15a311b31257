package uplink

import (
	"context"
	"errors"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// dialled is a network in which nobody is; it tells which addresses were dialled.
type dialled chan string

func (d dialled) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	select {
	case d <- address:
	case <-ctx.Done():
	}
	return nil, errors.New("nobody is there")
}

// After a move, the new address is dialled.
func TestWhoWasMovedIsDialledThere(t *testing.T) {
	network, at := make(dialled), newTransports([]string{"old:1"})
	connection, err := at.dial(insecure.NewCredentials(), callBriefly, []grpc.DialOption{Over(network)})
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	connection.Connect()
	if got := <-network; got != "old:1" {
		t.Errorf("it is dialled at %s", got)
	}
	(&Named{connection, at}).Move([]string{"new:1"})
	for again := 0; <-network != "new:1"; again++ {
		if again == 10 {
			t.Fatal("after it was moved it is dialled where it was")
		}
	}
}
