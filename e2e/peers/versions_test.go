package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/groupcast/groupcast/e2e/lab/labtest"
	"github.com/groupcast/groupcast/e2e/lab/link"
	"github.com/groupcast/groupcast/e2e/peers/tool"
)

func TestVersionsDifferAsTheResultSays(t *testing.T) {
	const size = link.MiB + 7
	earlier, sent := versions(size)
	before := make(map[string]entry)
	for _, e := range earlier {
		before[e.path] = e
	}
	var total link.Bytes
	var changed, added int
	for _, now := range sent {
		total += now.size
		was, there := before[now.path]
		delete(before, now.path)
		switch {
		case !there:
			added++
		case now.size != was.size:
			t.Errorf("%s had %d bytes and has %d", now.path, was.size, now.size)
		case now.content != was.content && now.time.After(was.time):
			changed++
		case now != was:
			t.Errorf("was %+v and is %+v", was, now)
		}
	}
	if len(earlier) != fileCount || len(sent) != fileCount || total != size {
		t.Errorf("%d files became %d files of %d bytes", len(earlier), len(sent), total)
	}
	if changed != changedCount || added != 1 || len(before) != 1 {
		t.Errorf("%d files were changed, %d added, %d removed", changed, added, len(before))
	}
}

func TestCopyOfADirectoryIsWholeAndNothingMore(t *testing.T) {
	_, sent := versions(link.MiB)
	for want, damage := range map[string]func(root string) error{
		"":                                  func(string) error { return nil },
		"no such file or directory":         os.RemoveAll,
		"payload/0/05 is not what was sent": func(root string) error { return os.WriteFile(filepath.Join(root, "0", "05"), nil, 0o600) },
		"payload/1/08 is missing":           func(root string) error { return os.Remove(filepath.Join(root, "1", "08")) },
		"payload/4/32 was not sent":         func(root string) error { return os.WriteFile(filepath.Join(root, "4", "32"), nil, 0o600) },
		"payload/empty was not sent":        func(root string) error { return os.Mkdir(filepath.Join(root, "empty"), 0o700) },
	} {
		root := filepath.Join(t.TempDir(), tool.FileName)
		whole, err := write(root, sent, 1)
		if err != nil {
			t.Fatal(err)
		}
		if err := damage(root); err != nil {
			t.Fatal(err)
		}
		said := ""
		if err := verifyOne(root, whole); err != nil {
			said = err.Error()
		}
		if !strings.HasSuffix(said, want) || want == "" && said != "" {
			t.Errorf("verified: %q, want %q", said, want)
		}
	}
}

// Tools that look for changes send few bytes more than those, and the one that does not sends everything. Nothing is said of when single
// receivers had all.
func TestToolsBringADirectoryUpToDate(t *testing.T) {
	labtest.Require(t)
	chosen, err := choosePlaces([]string{"changed4"})
	if err != nil {
		t.Fatal(err)
	}
	p, s := chosen[0], settings{size: 4 * link.MiB, runs: 1}
	rows, err := s.compare(context.Background(), p.among(tool.All()), p)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range rows {
		t.Logf("%s: %s", r.tool, r)
		if strings.HasPrefix(r.without, "missing: ") {
			continue
		}
		replaces := r.tool == p.baseline()
		if r.without != "" || r.fast != 0 || r.ratio == 0 || replaces != (r.copies >= 1) {
			t.Errorf("%s: %s; %.2f s for all but one, %.2f of the baseline's time", r.tool, r, r.fast, r.ratio)
		}
	}
	report := s.report(p, rows).Markdown()
	for _, want := range []string{"A directory of 4 MiB in 64 files", "| ÷ groupcast (tls) |"} {
		if !strings.Contains(report, want) {
			t.Errorf("the report does not say %q:\n%s", want, report)
		}
	}
}
