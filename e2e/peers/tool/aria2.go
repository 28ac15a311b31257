package tool

import (
	"context"
	"crypto/sha1"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// aria2 is BitTorrent: a tracker of our own on the sender, which also seeds, and receivers that
// trade pieces until all have everything.
type aria2 struct{}

func (*aria2) Name() string       { return "aria2 (BitTorrent)" }
func (*aria2) Programs() []string { return []string{"aria2c"} }
func (*aria2) Multicast() bool    { return false }

const (
	torrentName  = "payload.torrent"
	doneName     = "done"
	hookName     = "hook"
	trackerPort  = 6969
	peerPort     = 6881
	pieceLength  = 1 << 20
	trackerEvery = 5 // seconds between two calls of a peer
)

func (*aria2) Prepare(ctx context.Context, j *Job) error {
	torrent, err := makeTorrent(j.Disks[j.Sender].Outside(FileName), "http://"+j.Sender.At(trackerPort)+"/announce")
	if err != nil {
		return err
	}
	for host := range j.Disks {
		if err := j.write(host, torrentName, torrent, 0o644); err != nil {
			return err
		}
		if err := j.write(host, hookName, "#!/bin/sh\n: > "+path(doneName)+"\n", 0o755); err != nil {
			return err
		}
	}
	if err := track(ctx, j); err != nil {
		return err
	}
	_, err = start(j.Sender, "aria2c", arguments("--bt-seed-unverified=true")...)
	return err
}

func arguments(extra ...string) []string {
	return append([]string{
		"--quiet", "--no-conf", "--dir=/mnt", "--enable-dht=false", "--bt-enable-lpd=false", "--enable-peer-exchange=true",
		"--file-allocation=none", "--seed-ratio=0", "--bt-max-peers=0", "--bt-request-peer-speed-limit=1000M",
		"--listen-port=" + fmt.Sprint(peerPort), "--bt-tracker-interval=" + fmt.Sprint(trackerEvery), "--max-upload-limit=0",
		"--on-bt-download-complete=" + path(hookName),
	}, append(extra, path(torrentName))...)
}

func (*aria2) Deliver(ctx context.Context, j *Job) error {
	if _, err := j.startAll("aria2c", arguments()...); err != nil {
		return err
	}
	for _, receiver := range j.Receivers {
		for !exists(j.Disks[receiver].Outside(doneName)) {
			select {
			case <-ctx.Done():
				return fmt.Errorf("wait for aria2c on %s: %w; it wrote: %s", receiver.Name(), ctx.Err(), last(receiver.Output()))
			case <-time.After(time.Millisecond):
			}
		}
	}
	return nil
}

func exists(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// makeTorrent describes the file, piece by piece.
func makeTorrent(name, tracker string) (string, error) {
	file, err := os.Open(name)
	if err != nil {
		return "", fmt.Errorf("make a torrent: %w", err)
	}
	defer file.Close()
	var pieces []byte
	size := 0
	block := make([]byte, pieceLength)
	for {
		n, err := io.ReadFull(file, block)
		if n == 0 {
			break
		}
		hash := sha1.Sum(block[:n])
		pieces = append(pieces, hash[:]...)
		size += n
		if err != nil {
			break
		}
	}
	info := fmt.Sprintf("d6:lengthi%de4:name%s12:piece lengthi%de6:pieces%s7:privatei1ee", size, bencode(FileName), pieceLength, bencode(string(pieces)))
	return "d8:announce" + bencode(tracker) + "4:info" + info + "e", nil
}

func bencode(text string) string { return fmt.Sprintf("%d:%s", len(text), text) }

// tracker tells every peer about all others.
type tracker struct {
	mu    sync.Mutex
	peers map[string]bool // six bytes each: address and port
}

// track serves a tracker on the sender until ctx ends.
func track(ctx context.Context, j *Job) error {
	listener, err := j.Sender.Listen(ctx, "tcp4", j.Sender.At(trackerPort))
	if err != nil {
		return fmt.Errorf("start a tracker: %w", err)
	}
	server := &http.Server{Handler: &tracker{peers: map[string]bool{}}, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }()
	context.AfterFunc(ctx, func() { _ = server.Close() })
	return nil
}

// ServeHTTP answers an announcement with all peers, including the caller.
func (t *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.peers[string(net.ParseIP(host).To4())+string([]byte{peerPort >> 8, peerPort & 0xff})] = true
	all := ""
	for peer := range t.peers {
		all += peer
	}
	_, _ = io.WriteString(w, fmt.Sprintf("d8:intervali%de5:peers%se", trackerEvery, bencode(all)))
}
