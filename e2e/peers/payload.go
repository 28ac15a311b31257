package main

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/groupcast/groupcast/e2e/lab"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/peers/tool"
)

// contents are the hashes of a file, or of all files of a directory, by their paths on the disk. A directory's is zero.
type contents map[string][sha256.Size]byte

// furnish gives every host a disk, the sender what it sends, and the receivers what they have of that.
func furnish(n *network, directory bool, size link.Bytes, seed uint64) (*tool.Job, contents, error) {
	job := &tool.Job{
		Sender: n.sender, Receivers: n.receivers, Rate: n.rate, Size: size, Directory: directory, Disks: map[*lab.Host]*lab.Disk{},
		Manager: n.manager, Agents: n.agents, Zones: n.zones,
	}
	room := 3*size + 16*link.MiB
	if directory {
		room += size
	}
	for _, host := range slices.Concat([]*lab.Host{n.sender}, n.receivers, n.agents) {
		if job.Disks[host] != nil {
			continue
		}
		disk, err := host.Disk(room)
		if err != nil {
			return nil, nil, err
		}
		job.Disks[host] = disk
	}
	if directory {
		want, err := furnishVersions(job, seed)
		return job, want, err
	}
	sum, err := fill(job.Disks[n.sender].Outside(tool.FileName), size, seed, 0)
	return job, contents{tool.FileName: sum}, err
}

// fill writes bytes that do not compress, and that depend on the seed and a number, and returns their hash.
func fill(name string, size link.Bytes, seed, number uint64) (sum [sha256.Size]byte, err error) {
	file, err := os.Create(name)
	if err != nil {
		return sum, fmt.Errorf("make the file: %w", err)
	}
	defer file.Close()
	var key [32]byte
	key[0] = byte(seed)
	binary.BigEndian.PutUint64(key[8:], number)
	hash := sha256.New()
	if _, err := io.CopyN(io.MultiWriter(file, hash), rand.NewChaCha8(key), int64(size)); err != nil {
		return sum, fmt.Errorf("make the file: %w", err)
	}
	return [sha256.Size]byte(hash.Sum(nil)), nil
}

// verify hashes every receiver's copy.
func verify(job *tool.Job, want contents) error {
	errs := make([]error, len(job.Receivers))
	var verifying errgroup.Group
	verifying.SetLimit(runtime.NumCPU())
	for i, receiver := range job.Receivers {
		verifying.Go(func() error {
			if err := verifyOne(job.Disks[receiver].Outside(tool.FileName), want); err != nil {
				errs[i] = fmt.Errorf("verify the copy at %s: %w", receiver.Name(), err)
			}
			return nil
		})
	}
	_ = verifying.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// verifyOne returns an error unless a copy has everything that it should have, and nothing else.
func verifyOne(name string, want contents) error {
	got, err := read(name)
	if err != nil {
		return err
	}
	for _, path := range slices.Sorted(maps.Keys(want)) {
		if sum, there := got[path]; !there {
			return fmt.Errorf("%s is missing", path)
		} else if sum != want[path] {
			return fmt.Errorf("%s is not what was sent", path)
		}
	}
	for _, path := range slices.Sorted(maps.Keys(got)) {
		if _, sent := want[path]; !sent {
			return fmt.Errorf("%s was not sent", path)
		}
	}
	return nil
}

// read hashes a file, or all files of a directory.
func read(root string) (contents, error) {
	found := contents{}
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		path, err := filepath.Rel(filepath.Dir(root), name)
		if err != nil {
			return err
		}
		found[path] = [sha256.Size]byte{}
		if !entry.IsDir() {
			found[path], err = hash(name)
		}
		return err
	})
	return found, err
}

func hash(name string) (sum [sha256.Size]byte, err error) {
	file, err := os.Open(name)
	if err != nil {
		return sum, err
	}
	defer file.Close()
	hash := sha256.New()
	_, err = io.Copy(hash, file)
	return [sha256.Size]byte(hash.Sum(nil)), err
}
