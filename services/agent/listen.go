package agent

import (
	"net"

	"github.com/groupcast/groupcast/internal/daemon"
	"github.com/groupcast/groupcast/internal/datagram"
	"github.com/groupcast/groupcast/internal/udp"
)

// listenTries is how many ports are tried where any will do: one of TCP is mostly free for
// UDP, too, but nobody has promised that.
const listenTries = 10

// listen takes the data port, for links and for datagrams. On a network that is not the
// machine's own there are no datagrams.
func listen(env daemon.Env, address string) (net.Listener, *udp.Socket, error) {
	for try := 1; ; try++ {
		listener, err := env.Listen("tcp", address)
		if err != nil || env.Network != nil {
			return listener, nil, err
		}
		datagrams, err := datagram.Listen(listener.Addr().String())
		if err == nil {
			return listener, datagrams, nil
		}
		listener.Close()
		if _, port, _ := net.SplitHostPort(address); port != "0" || try == listenTries {
			return nil, nil, err
		}
	}
}
