package identity_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/groupcast/groupcast/internal/identity"
	"github.com/groupcast/groupcast/internal/testdisk"
)

func TestRenewalIsDueAtHalfLife(t *testing.T) {
	issued := time.Now().Truncate(time.Second) // certificates have whole seconds
	credentials := issue(t, newCA(t, func() time.Time { return issued }), alice)
	for _, tt := range []struct {
		after time.Duration
		due   bool
	}{
		{0, false},
		{identity.CertificateLifetime/2 - 2*time.Minute, false},
		{identity.CertificateLifetime/2 + 2*time.Minute, true},
		{identity.CertificateLifetime, true},
		{2 * identity.CertificateLifetime, true},
		{-2 * time.Minute, true}, // the issuer's clock is ahead: that is no reason to wait
	} {
		if due := credentials.RenewalDue(issued.Add(tt.after)); due != tt.due {
			t.Errorf("after %v, due is %v", tt.after, due)
		}
	}
	if life := credentials.Expiry().Sub(issued).Round(time.Second); life != identity.CertificateLifetime {
		t.Errorf("expires after %v, want %v", life, identity.CertificateLifetime)
	}
}

func TestSelfIssuedRenewsItself(t *testing.T) {
	now := time.Now()
	ca := newCA(t, func() time.Time { return now })
	own, err := identity.NewSelfIssued(ca, manager)
	if err != nil {
		t.Fatal(err)
	}
	first := current(t, own)
	if current(t, own) != first {
		t.Error("a fresh certificate was replaced")
	}
	now = now.Add(identity.CertificateLifetime * 2 / 3)
	if second := current(t, own); second == first || second.ID != manager {
		t.Errorf("after two thirds of its life, the certificate of %s is still in use", second.ID)
	}
}

// aliceThenBob returns two bundles of one CA, and files that contain the first.
func aliceThenBob(t *testing.T) (first, second *identity.Bundle, files *identity.Files) {
	t.Helper()
	ca := newCA(t, time.Now)
	first, second = bundle(t, ca, alice), bundle(t, ca, identity.ID{Role: identity.Member, Name: "bob"})
	files = identity.FilesIn(filepath.Join(t.TempDir(), "credentials"))
	if err := files.Write(first); err != nil {
		t.Fatal(err)
	}
	return first, second, files
}

// Files change under a running process, and not all at once: cert-manager replaces a link, others write one file after another.
func TestFilesAreReadAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		first, second, files := aliceThenBob(t)
		wantIdentity(t, files, "member/alice")

		write(t, files.Certificate, string(second.Certificate))
		wantIdentity(t, files, "member/alice") // the key does not fit yet
		write(t, files.Key, string(second.Key))
		wantIdentity(t, files, "member/bob")

		write(t, files.Certificate, "noise")
		wantIdentity(t, files, "member/bob")
		if err := os.Remove(files.Key); err != nil {
			t.Fatal(err)
		}
		wantIdentity(t, files, "member/bob")
		if err := files.Write(first); err != nil {
			t.Fatal(err)
		}
		wantIdentity(t, files, "member/alice")
	})
}

// Whoever reads files for the first time waits for those that are just being replaced.
func TestFilesInTheMiddleOfAChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, second, files := aliceThenBob(t)
		write(t, files.Key, string(second.Key))
		time.AfterFunc(700*time.Millisecond, func() { write(t, files.Certificate, string(second.Certificate)) })
		if got := current(t, identity.FilesIn(filepath.Dir(files.Key))).ID.Name; got != "bob" {
			t.Errorf("the files give %s, want bob", got)
		}
	})
}

// After a power cut any of the files may have been replaced; after a kill, those that came first. What is left can be
// read, and is renewed at once, so that others can read it again. If there were no files before, the key's file is
// enough.
func TestFilesWhoseWriterWasInterrupted(t *testing.T) {
	for replaced := range 1 << 3 {
		for _, first := range []bool{true, false} {
			t.Run(fmt.Sprintf("%03b-first-%t", replaced, first), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { interrupted(t, replaced, first) })
			})
		}
	}
}

// interrupted writes files anew, and leaves some of them not replaced.
func interrupted(t *testing.T, replaced int, first bool) {
	_, second, files := aliceThenBob(t)
	dir := filepath.Dir(files.Key)
	if first {
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	whole := identity.FilesIn(t.TempDir())
	if err := whole.Write(second); err != nil {
		t.Fatal(err)
	}
	for i, name := range []string{whole.Authorities, whole.Key, whole.Certificate} {
		if replaced&(1<<i) != 0 {
			write(t, filepath.Join(dir, filepath.Base(name)), read(t, name))
		}
	}
	left, err := files.Credentials()
	if first && replaced&0b11 != 0b11 {
		if !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%v, want that one is not there", err)
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	want := map[bool]string{true: "bob", false: "alice"}[replaced&0b10 != 0]
	_, others := tls.LoadX509KeyPair(files.Certificate, files.Key)
	if left.ID.Name != want || left.RenewalDue(time.Now()) != (others != nil) {
		t.Errorf("they are of %s, want %s; renewal is due %t, and others read: %v", left.ID.Name, want, left.RenewalDue(time.Now()), others)
	}
	if err := files.Write(second); err != nil {
		t.Fatal(err)
	}
	if again := current(t, files); again.ID.Name != "bob" || again.RenewalDue(time.Now()) {
		t.Errorf("written again they are of %s, and renewal is due %t", again.ID, again.RenewalDue(time.Now()))
	}
}

// Renewed credentials that cannot be written are used all the same, and written later. Those that somebody else has written meanwhile
// are not replaced.
func TestAdoptedCredentialsNeedNoRoom(t *testing.T) {
	for name, enrolledAnew := range map[string]bool{"alone": false, "enrolled anew": true} {
		t.Run(name, func(t *testing.T) {
			disk := testdisk.Memory(t, "size=64k")
			synctest.Test(t, func(t *testing.T) { adopted(t, disk, enrolledAnew) })
		})
	}
}

// adopted has bob's credentials adopted in place of alice's while a disk is full, and maybe carol's written when it no longer is.
func adopted(t *testing.T, disk string, enrolledAnew bool) {
	ca := newCA(t, time.Now)
	files, filler := identity.FilesIn(filepath.Join(disk, "credentials")), filepath.Join(disk, "filler")
	if err := files.Write(bundle(t, ca, alice)); err != nil {
		t.Fatal(err)
	}
	wantIdentity(t, files, "member/alice")
	testdisk.Fill(t, filler)
	if err := files.Adopt(bundle(t, ca, identity.ID{Role: identity.Member, Name: "bob"})); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("written to a full disk: %v", err)
	}
	if err := os.Chtimes(files.Certificate, time.Time{}, time.Now()); err != nil { // they are read again
		t.Fatal(err)
	}
	wantIdentity(t, files, "member/bob")
	if written, err := files.WriteAdopted(); written || !errors.Is(err, syscall.ENOSPC) || current(t, files).RenewalDue(time.Now()) {
		t.Errorf("written to a full disk: %t, %v; renewal is due: %t", written, err, current(t, files).RenewalDue(time.Now()))
	}

	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	want := "member/bob"
	if enrolledAnew {
		want = "member/carol"
		if err := identity.FilesIn(filepath.Dir(files.Key)).Write(bundle(t, ca, identity.ID{Role: identity.Member, Name: "carol"})); err != nil {
			t.Fatal(err)
		}
		wantIdentity(t, files, want)
	}
	if written, err := files.WriteAdopted(); written == enrolledAnew || err != nil {
		t.Errorf("where there is room, written: %t, %v", written, err)
	}
	wantIdentity(t, files, want)
	wantIdentity(t, identity.FilesIn(filepath.Dir(files.Key)), want)
}

// Earlier versions, and other programs, can read what is written: the key comes first in its file.
func TestOthersReadTheFiles(t *testing.T) {
	_, _, files := aliceThenBob(t)
	if _, err := tls.LoadX509KeyPair(files.Certificate, files.Key); err != nil {
		t.Error(err)
	}
	if text := read(t, files.Key); !strings.HasPrefix(text, "-----BEGIN PRIVATE KEY-----") {
		t.Errorf("the key's file begins with %.40q", text)
	}
}

func TestFilesThatWereNeverRight(t *testing.T) {
	good := bundle(t, newCA(t, time.Now), alice)
	other := bundle(t, newCA(t, time.Now), alice)
	for name, tt := range map[string]struct {
		bundle *identity.Bundle
		want   string
	}{
		"nothing":          {nil, "tls.crt: no such file"},
		"another's key":    {&identity.Bundle{Certificate: good.Certificate, Key: other.Key, Authorities: good.Authorities}, "private key does not match"},
		"no authorities":   {&identity.Bundle{Certificate: good.Certificate, Key: good.Key, Authorities: []byte("none")}, "holds no certificate"},
		"empty":            {&identity.Bundle{}, "tls.crt: read certificate"},
		"key for the cert": {&identity.Bundle{Certificate: good.Key, Key: good.Key, Authorities: good.Authorities}, "tls.crt: read certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			files := identity.FilesIn(t.TempDir())
			if tt.bundle != nil {
				if err := files.Write(tt.bundle); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := files.Credentials(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want %q", err, tt.want)
			}
		})
	}
}

func TestWriteFileLeavesTheOldOrTheNew(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	contents := []string{strings.Repeat("a", 1<<16), strings.Repeat("b", 1<<16)}
	write(t, name, contents[0])
	var writing sync.WaitGroup
	writing.Go(func() {
		for i := range 50 {
			write(t, name, contents[i%2])
		}
	})
	for range 500 {
		if content := read(t, name); content != contents[0] && content != contents[1] {
			t.Errorf("read %d bytes of a file that is being written", len(content))
		}
	}
	writing.Wait()
}

func TestWriteFileFailsWithoutTraces(t *testing.T) {
	dir := t.TempDir()
	if err := identity.WriteFile(filepath.Join(dir, "missing", "file"), nil, 0o600); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("into a directory that is not there: %v", err)
	}
	inTheWay := filepath.Join(dir, "name")
	if err := os.MkdirAll(filepath.Join(inTheWay, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := identity.WriteFile(inTheWay, []byte("new"), 0o600); err == nil {
		t.Error("a directory was replaced by a file")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
	name := filepath.Join(dir, "secret")
	write(t, name, "secret")
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600: %v", info.Mode(), err)
	}
}

// Root may use another user's configuration: what it writes there stays that user's.
func TestWriteFileKeepsTheOwner(t *testing.T) {
	if os.Geteuid() != 0 {
		if os.Getenv("CI") != "" {
			t.Fatal("this needs root")
		}
		t.Skip("this needs root")
	}
	const nobody = 65534
	dir := t.TempDir()
	name, others := filepath.Join(dir, "tls.key"), filepath.Join(dir, "of-another")
	write(t, name, "old")
	if err := errors.Join(os.Chown(name, nobody, nobody), os.Mkdir(others, 0o700), os.Chown(others, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name  string
		owner uint32
	}{{name, nobody}, {filepath.Join(others, "tls.key"), nobody}, {filepath.Join(dir, "own"), 0}} {
		write(t, tt.name, "new")
		info, err := os.Stat(tt.name)
		if err != nil {
			t.Fatal(err)
		}
		if stat := info.Sys().(*syscall.Stat_t); stat.Uid != tt.owner || stat.Gid != tt.owner || info.Mode().Perm() != 0o600 {
			t.Errorf("%s is of %d:%d with mode %v, want %d and 0600", tt.name, stat.Uid, stat.Gid, info.Mode(), tt.owner)
		}
	}
}

func current(t *testing.T, source identity.Source) *identity.Credentials {
	t.Helper()
	credentials, err := source.Credentials()
	if err != nil {
		t.Fatal(err)
	}
	return credentials
}

// wantIdentity checks the files, after waiting until they are read again.
func wantIdentity(t *testing.T, files *identity.Files, want string) {
	t.Helper()
	time.Sleep(2 * time.Second) // by the bubble's clock
	if got := current(t, files).ID.String(); got != want {
		t.Errorf("the files give %s, want %s", got, want)
	}
}

func bundle(t *testing.T, ca *identity.CA, id identity.ID) *identity.Bundle {
	t.Helper()
	issued, err := ca.IssueBundle(id, 1)
	if err != nil {
		t.Fatal(err)
	}
	return issued
}
