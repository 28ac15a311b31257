package testprocess

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"
)

// Prepared is the variable that names the directory that Prepare returned.
const Prepared = "GROUPCAST_PROGRAMS"

const earlierDir = "earlier" // in it, for the programs of the version before

// helpers are programs of tests themselves. Some have one name: each is in a directory of its own.
var helpers = []string{module + "e2e/faults/liar", module + "e2e/datagrams/member", module + "e2e/papers/member"}

const module = "github.com/groupcast/groupcast/"

// part returns the directory, in the one that is prepared, that a program is in.
func part(importPath string) string {
	if within, is := strings.CutPrefix(path.Dir(importPath), module+"e2e/"); is {
		return within
	}
	return ""
}

// prepared returns the file of a program that Prepare is to have built. One that was built now would be unknown to `go test`, which
// would take results for its.
func prepared(binary string) (string, error) {
	if _, err := os.Stat(binary); err != nil {
		return "", fmt.Errorf("%w: is it among what testprocess.Prepare builds?", err)
	}
	return binary, nil
}

// builtAt is when all that is prepared was made, for all that can be seen of it: `go test` looks at that, too.
var builtAt = time.Unix(0, 0)

// Prepare builds, once for many packages, what their tests run as programs: those of this module, of the version before,
// and of modules that it depends on. The directory that has them is in into, and named by what they contain. Since `go
// test` knows which variables a test has read, it takes a result for what it was while tests and programs are the same.
func Prepare(into string) (dir string, err error) {
	into, err = filepath.Abs(into)
	if err != nil {
		return "", err
	}
	// What is built already is not linked again.
	begun, building := time.Now(), filepath.Join(into, "building")
	if err := build("", building, module+"services/...", "go.etcd.io/etcd/server/v3"); err != nil {
		return "", err
	}
	for _, helper := range helpers {
		if err := build("", filepath.Join(building, part(helper)), helper); err != nil {
			return "", err
		}
	}
	sources, err := os.MkdirTemp("", "groupcast-earlier-")
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(sources)) }()
	if _, err := unpackEarlier(sources); err != nil {
		return "", err
	}
	if err := build(sources, filepath.Join(building, earlierDir), "./services/..."); err != nil {
		return "", err
	}
	if err := settle(building, begun); err != nil {
		return "", err
	}
	sum, err := contents(building)
	if err != nil {
		return "", err
	}
	dir = filepath.Join(into, sum)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	return dir, publish(into, building, dir)
}

// settle removes what nothing has built since then, and makes all else as old as ever.
func settle(building string, begun time.Time) error {
	return eachFile(building, func(name string) error {
		name = filepath.Join(building, name)
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.ModTime().Before(begun.Truncate(time.Second)) {
			return os.Remove(name)
		}
		return os.Chtimes(name, builtAt, builtAt)
	})
}

// contents returns a short name for what is in a directory.
func contents(dir string) (string, error) {
	hash := sha256.New()
	err := eachFile(dir, func(name string) error {
		file, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer file.Close()
		of := sha256.New()
		if _, err := io.Copy(of, file); err != nil {
			return err
		}
		_, err = fmt.Fprintf(hash, "%s %x\n", name, of.Sum(nil))
		return err
	})
	return hex.EncodeToString(hash.Sum(nil)[:8]), err
}

// publish gives dir, in into, the files of building, at once, and removes what was published before.
func publish(into, building, dir string) error {
	staged, err := os.MkdirTemp(into, "staged-")
	if err != nil {
		return err
	}
	err = eachFile(building, func(name string) error {
		to := filepath.Join(staged, name)
		return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.Link(filepath.Join(building, name), to))
	})
	if err != nil {
		return errors.Join(err, os.RemoveAll(staged))
	}
	others, err := os.ReadDir(into)
	for _, other := range others {
		if name := filepath.Join(into, other.Name()); name != building && name != staged {
			err = errors.Join(err, os.RemoveAll(name))
		}
	}
	return errors.Join(err, os.Chmod(staged, 0o755), os.Rename(staged, dir))
}

// eachFile calls visit with each file below dir, in the order of their names.
func eachFile(dir string, visit func(name string) error) error {
	return fs.WalkDir(os.DirFS(dir), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return visit(name)
	})
}
