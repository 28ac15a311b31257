package main

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/peers/tool"
)

// A directory that is sent differs from its earlier version in the content of 8 % of its files. Besides, one file is gone and one is new.
const (
	fileCount    = 64
	folderSize   = 8  // files in each directory within it
	changedEvery = 12 // of so many files, one has changed
	changedCount = fileCount / changedEvery
	replaced     = fileCount / 2 // the number of the file that is gone, and of the new one
)

// entry is a file of a directory.
type entry struct {
	path    string
	size    link.Bytes
	content uint64 // what fill makes its bytes of
	time    time.Time
}

// versions returns the files of a directory, and those of its earlier version. A file has a later time if its content is another.
func versions(size link.Bytes) (earlier, sent []entry) {
	written := time.Unix(1_700_000_000, 0)
	for i := range fileCount {
		before := entry{
			path: fmt.Sprintf("%d/%02d", i/folderSize, i), content: uint64(i), time: written,
			size: size*link.Bytes(i+1)/fileCount - size*link.Bytes(i)/fileCount,
		}
		now := before
		if i == replaced {
			now.path += "-new"
		}
		if i == replaced || i%changedEvery == changedEvery/2-1 {
			now.content += fileCount
			now.time = written.Add(time.Hour)
		}
		earlier, sent = append(earlier, before), append(sent, now)
	}
	return earlier, sent
}

// furnishVersions gives the sender a directory, and every receiver its earlier version.
func furnishVersions(job *tool.Job, seed uint64) (contents, error) {
	earlier, sent := versions(job.Size)
	for _, receiver := range job.Receivers {
		if _, err := write(job.Disks[receiver].Outside(tool.FileName), earlier, seed); err != nil {
			return nil, err
		}
	}
	return write(job.Disks[job.Sender].Outside(tool.FileName), sent, seed)
}

// write makes a directory, and returns what is in it.
func write(root string, entries []entry, seed uint64) (contents, error) {
	base := filepath.Base(root)
	made := contents{base: {}}
	for _, e := range entries {
		name := filepath.Join(root, e.path)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, fmt.Errorf("make a directory: %w", err)
		}
		sum, err := fill(name, e.size, seed, e.content)
		if err != nil {
			return nil, err
		}
		if err := os.Chtimes(name, e.time, e.time); err != nil {
			return nil, fmt.Errorf("make a directory: %w", err)
		}
		path := filepath.Join(base, e.path)
		made[filepath.Dir(path)] = [sha256.Size]byte{}
		made[path] = sum
	}
	return made, nil
}
