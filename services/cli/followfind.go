package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// piece is a file that a part of the stream is from. A file that was cut is a new piece.
type piece struct {
	Device uint64 `json:"device"`
	Inode  uint64 `json:"inode"`
	// Born is in nanoseconds since 1970; zero if the file system does not tell.
	Born int64 `json:"born,omitempty"`
	// Began is the offset of the file's first byte in the stream.
	Began uint64 `json:"began"`
	// Head is the SHA-256 of its first HeadBytes bytes: if it is different, the file was cut and has grown since.
	Head      string `json:"head,omitempty"`
	HeadBytes int    `json:"headBytes,omitempty"`
	// Marks tell what it had at its end now and then, the oldest first.
	Marks []mark `json:"marks,omitempty"`
}

// headMost is how many bytes at its beginning tell whether a file was cut.
const headMost = 256

// identify returns which file is open, and its size.
func identify(file *os.File) (piece, uint64, error) {
	var stat unix.Statx_t
	if err := unix.Statx(int(file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_INO|unix.STATX_SIZE|unix.STATX_BTIME, &stat); err != nil {
		return piece{}, 0, fmt.Errorf("look at %s: %w", file.Name(), err)
	}
	p := piece{Device: unix.Mkdev(stat.Dev_major, stat.Dev_minor), Inode: stat.Ino}
	if stat.Mask&unix.STATX_BTIME != 0 {
		p.Born = stat.Btime.Sec*1e9 + int64(stat.Btime.Nsec)
	}
	return p, stat.Size, nil
}

// same reports whether both are the same file. Inodes are used again, so that times of birth have to agree, too. If these are not known,
// devices have to: these may get other numbers when the machine is started.
func (p piece) same(other piece) bool {
	if p.Born != 0 && other.Born != 0 {
		return p.Inode == other.Inode && p.Born == other.Born
	}
	return p.Inode == other.Inode && p.Device == other.Device
}

// headIs reports whether a file begins as the piece did.
func (p piece) headIs(file *os.File) bool {
	head, err := headOf(file, p.HeadBytes)
	return err == nil && (p.HeadBytes == 0 || head == p.Head)
}

func headOf(file *os.File, bytes int) (string, error) {
	head := make([]byte, bytes)
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, int64(bytes)), head); err != nil {
		return "", fmt.Errorf("read the beginning of %s: %w", file.Name(), err)
	}
	sum := sha256.Sum256(head)
	return hex.EncodeToString(sum[:]), nil
}

// find opens the file of a piece: under the followed name, or beside that under another. It returns none
// if there is none, or if the file was cut later, so that it has other bytes now.
func (f *following) find(known piece) (*os.File, uint64) {
	if f.book.cutLater(known) {
		return nil, 0
	}
	for _, path := range append([]string{f.name}, f.beside(func(name string) bool { return true })...) {
		file, found, size := look(path)
		if file != nil && found.same(known) {
			return file, size
		}
		if file != nil {
			_ = file.Close() // it was only looked at
		}
	}
	return nil, 0
}

// look opens a file if it is a plain one. It does not wait for the other end of a pipe.
func look(path string) (*os.File, piece, uint64) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, piece{}, 0
	}
	info, err := file.Stat()
	if err == nil && info.Mode().IsRegular() {
		if found, size, err := identify(file); err == nil {
			return file, found, size
		}
	}
	_ = file.Close() // it was only looked at
	return nil, piece{}, 0
}

// beside returns the files whose names fit, in the directory of the followed name and, if that is a link, in that of its target.
func (f *following) beside(fits func(name string) bool) (paths []string) {
	dirs := []string{filepath.Dir(f.name), filepath.Dir(f.target())}
	for _, dir := range slices.Compact(dirs) {
		entries, _ := os.ReadDir(dir) // it returns what it could read
		for _, entry := range entries {
			if entry.Type().IsRegular() && fits(entry.Name()) {
				paths = append(paths, filepath.Join(dir, entry.Name()))
			}
		}
	}
	return paths
}

// mostLinks is how many links may lead to a file, one after the other: the kernel follows no more.
const mostLinks = 40

// target returns the name that the followed name leads to, if that is a link. While a log is rotated, nothing may have it.
func (f *following) target() string {
	name := f.name
	for range mostLinks {
		next, err := os.Readlink(name)
		if err != nil {
			break
		}
		if !filepath.IsAbs(next) {
			dir, err := filepath.EvalSymlinks(filepath.Dir(name)) // .. is the directory above that
			if err != nil {
				break
			}
			next = filepath.Join(dir, next)
		}
		name = next
	}
	return name
}

// successor opens the file that comes after the one that was read: one that was rotated away before
// it was seen, or else the one that has the name. There may be none.
func (f *following) successor() (*os.File, piece, error) {
	named, err := os.Open(f.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, piece{}, nil
	}
	if err != nil {
		return nil, piece{}, err
	}
	now, _, err := identify(named)
	last, is := f.book.current()
	switch {
	case err != nil:
		return nil, now, errors.Join(err, named.Close())
	case !is:
		return named, now, nil
	case now.same(last) && f.file != nil:
		return nil, now, named.Close()
	}
	if missed, found := f.between(last, now); missed != nil {
		_ = named.Close() // it comes after that
		return missed, found, nil
	}
	return named, now, nil
}

// between opens the oldest of the files that had the name after one and before other. These were born between the two, or in the same tick
// of the kernel's clock as other, are named like rotated files, and were written to after one was. A copy that is made of a file before
// it is cut was not.
func (f *following) between(one, other piece) (oldest *os.File, found piece) {
	bases := []string{filepath.Base(f.name), filepath.Base(f.target())}
	isRotated := func(name string) bool {
		return slices.ContainsFunc(bases, func(base string) bool { return rotated(base, name) })
	}
	for _, path := range f.beside(isRotated) {
		file, here, _ := look(path)
		if file == nil {
			continue
		}
		if one.Born == 0 || here.Born <= one.Born || here.Born > other.Born || here.same(other) || oldest != nil && here.Born > found.Born || f.writtenBefore(file) {
			_ = file.Close() // it was only looked at
			continue
		}
		if oldest != nil {
			_ = oldest.Close()
		}
		oldest, found = file, here
	}
	return oldest, found
}

// rotated reports whether a name is one that a rotation gives a file whose name was base: that with a number or a date after it, or
// before its extension.
func rotated(base, name string) bool {
	if suffix, is := strings.CutPrefix(name, base); is {
		return isNumbered(suffix)
	}
	ending := filepath.Ext(base)
	stem, is := strings.CutSuffix(name, ending)
	if suffix, begins := strings.CutPrefix(stem, strings.TrimSuffix(base, ending)); is && begins {
		return isNumbered(suffix)
	}
	return false
}

func isNumbered(suffix string) bool {
	return len(suffix) > 1 && strings.ContainsAny(suffix[:1], ".-_") && strings.Trim(suffix, "0123456789.-_T:") == ""
}

// writtenBefore reports whether a file was last written to before the one that was read.
func (f *following) writtenBefore(file *os.File) bool {
	if f.file == nil {
		return false
	}
	own, err := f.file.Stat()
	other, failed := file.Stat()
	return errors.Join(err, failed) == nil && other.ModTime().Before(own.ModTime())
}
