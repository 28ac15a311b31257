package gather

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/sdk"
)

// wantInvalid makes sure that a call is refused before anything is sent, and that the error says why.
func wantInvalid(t *testing.T, err error, why string) {
	t.Helper()
	var known *sdk.Error
	if !errors.As(err, &known) || known.Code != sdk.InvalidArgument || !strings.Contains(known.Message, why) {
		t.Errorf("%v, want an invalid argument: %q", err, why)
	}
}

// write writes a file below a directory.
func write(t *testing.T, dir, name string) string {
	t.Helper()
	at := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(at), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(at, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return at
}

// A file that has no path that an upload can have keeps all of a tree from being uploaded, and is named.
func TestTreeWhosePathsDoNotFit(t *testing.T) {
	for _, name := range []string{strings.Repeat("d/", 60) + "deep", "log.stream/f", "a.stream"} {
		dir := t.TempDir()
		write(t, dir, "fits")
		if _, err := surveyTree(t.Context(), dir, "tree"); err != nil {
			t.Fatal(err)
		}
		write(t, dir, name)
		_, err := surveyTree(t.Context(), dir, "tree")
		wantInvalid(t, err, filepath.Base(name))
	}
	dir := t.TempDir()
	write(t, dir, strings.Repeat("d/", 29)+"f")
	if _, err := surveyTree(t.Context(), dir, "tree"); err != nil {
		t.Error(err)
	}
	_, err := surveyTree(t.Context(), dir, "deeper/tree") // it counts where it goes
	wantInvalid(t, err, "directories")
}

// Looking at a tree may take longer than the upload may, or than its user is willing to wait. That ends it, and the error says which.
func TestLookingAtATreeEnds(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "f")
	enough := errors.New("enough")
	ctx, end := context.WithCancelCause(t.Context())
	end(enough)
	if err := new(Client).UploadTree(ctx, dir, FileOptions{}, nil); !errors.Is(err, enough) {
		t.Errorf("a tree: %v", err)
	}
	if _, err := new(Client).Upload(ctx, dir, FileOptions{}); !errors.Is(err, enough) {
		t.Errorf("a tree that was taken for a file: %v", err)
	}
	if _, err := surveyTree(ctx, dir, "tree"); !errors.Is(err, context.Canceled) {
		t.Errorf("its survey: %v", err)
	}
}

// Directories with nothing in them to upload are found, and their paths checked; others are made for what is in them.
func TestEmptyDirectories(t *testing.T) {
	empty := func(dir string) (all []string) {
		t.Helper()
		survey, err := surveyTree(t.Context(), dir, "tree")
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range survey.dirs {
			all = append(all, one.path)
		}
		return all
	}
	dir := t.TempDir()
	if got := empty(dir); !slices.Equal(got, []string{"."}) {
		t.Errorf("of a bare tree %q are empty", got)
	}
	write(t, dir, "a/b/f")
	write(t, dir, "left/.groupcast-partial/x/data")
	for _, name := range []string{"a/none", "z/z/none"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if got := empty(dir); !slices.Equal(got, []string{"a/none", "left", "z/z/none"}) {
		t.Errorf("%q are empty", got)
	}
	if err := os.Mkdir(filepath.Join(dir, "log.stream"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := surveyTree(t.Context(), dir, "tree")
	wantInvalid(t, err, "log.stream")
}

// Calls that cannot be meant are refused before anything is sent.
func TestWhatCannotBeMeant(t *testing.T) {
	client := &Client{}
	file := write(t, t.TempDir(), "f")
	_, err := client.Upload(t.Context(), file, FileOptions{Path: "a\xff"})
	wantInvalid(t, err, "not UTF-8")
	_, err = client.UploadStream(t.Context(), func(uint64) (io.Reader, error) { return nil, nil }, StreamOptions{Path: "a\xff"})
	wantInvalid(t, err, "not UTF-8")
	wantInvalid(t, client.UploadTree(t.Context(), filepath.Dir(file), FileOptions{Path: "a\xff"}, nil), "not UTF-8")
	wantInvalid(t, client.UploadTree(t.Context(), file, FileOptions{}, nil), "is no directory")
	_, err = Open(t.Context(), "/nonexistent", "127.0.0.1:7420", Options{})
	wantInvalid(t, err, "/nonexistent")
}
