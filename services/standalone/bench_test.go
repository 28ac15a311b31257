package standalone_test

import (
	"bufio"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/groupcast/groupcast/internal/testprocess"
)

// A standalone server starts on an empty directory, and says that it is ready.
// Goal: within 3 s.
func BenchmarkStartToReady(b *testing.B) {
	binary := testprocess.Binary(b, "github.com/groupcast/groupcast/services/standalone/cmd/groupcast-standalone")
	for b.Loop() {
		start := time.Now()
		server := exec.Command(binary, "--data", filepath.Join(b.TempDir(), "data"), "--grpc-listen", "127.0.0.1:0", "--admin-listen", "", "--agents-listen", "127.0.0.1:0", "--gatherer-enabled=false")
		server.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		stdout, err := server.StdoutPipe()
		if err != nil {
			b.Fatal(err)
		}
		if err := server.Start(); err != nil {
			b.Fatal(err)
		}
		line, err := bufio.NewReader(stdout).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, "ready: ") {
			b.Fatalf("it said %q (%v), want that it is ready", line, err)
		}
		b.ReportMetric(time.Since(start).Seconds()*1000, "ms-to-ready")
		server.Process.Kill()
		server.Wait()
	}
}
