package tool

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/groupcast/groupcast/e2e/lab"
)

// listening waits until a server accepts connections.
func (j *Job) listening(ctx context.Context, port uint16) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		conn, err := j.Sender.Dial(ctx, "tcp4", j.Sender.At(port))
		if err == nil {
			return conn.Close()
		}
		if ctx.Err() != nil {
			return fmt.Errorf("wait for port %d of %s: %w", port, j.Sender.Name(), err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// nginxCurl is a web server, and a download for each receiver. With a hash, every receiver hashes its copy when it has it.
type nginxCurl struct {
	hash string
	tls  bool
}

func (n nginxCurl) Name() string {
	name := "nginx + curl"
	if n.hash != "" {
		name += " + " + n.hash
	}
	if n.tls {
		name += " (tls)"
	}
	return name
}

func (n nginxCurl) Programs() []string {
	if n.hash != "" {
		return []string{"nginx", "curl", n.hash}
	}
	return []string{"nginx", "curl"}
}

func (nginxCurl) Multicast() bool { return false }

// nginxConfig makes nginx a single process, whose processor time can be seen.
const nginxConfig = `daemon off; master_process off; pid /mnt/nginx-%[1]d.pid; error_log stderr;
events { worker_connections 1024; }
http {
  access_log off; sendfile on; tcp_nopush on; keepalive_timeout 5;
  client_body_temp_path /mnt/body; proxy_temp_path /mnt/proxy; fastcgi_temp_path /mnt/fastcgi;
  uwsgi_temp_path /mnt/uwsgi; scgi_temp_path /mnt/scgi;
  server { listen %[1]d %[2]s; root /mnt; }
}
`

const nginxTLS = `ssl; ssl_protocols TLSv1.3; ssl_certificate /mnt/nginx.pem; ssl_certificate_key /mnt/nginx.pem`

// ports are where servers listen, one each. A plain server serves everything from the page cache
// without waiting; those that encrypt need a processor each.
func (n nginxCurl) ports() []uint16 {
	if n.tls {
		return []uint16{80, 81}
	}
	return []uint16{80}
}

func (n nginxCurl) Prepare(ctx context.Context, j *Job) error {
	options := ""
	if n.tls {
		options = nginxTLS
		if err := j.certify("nginx.pem"); err != nil {
			return err
		}
	}
	for _, port := range n.ports() {
		config := fmt.Sprintf("nginx-%d.conf", port)
		if err := j.write(j.Sender, config, fmt.Sprintf(nginxConfig, port, options), 0o644); err != nil {
			return err
		}
		if _, err := start(j.Sender, "nginx", "-e", "stderr", "-c", path(config)); err != nil {
			return err
		}
		if err := j.listening(ctx, port); err != nil {
			return err
		}
	}
	return nil
}

func (n nginxCurl) Deliver(ctx context.Context, j *Job) error {
	ports, downloads := n.ports(), make([]*lab.Process, len(j.Receivers))
	for i, receiver := range j.Receivers {
		command := []string{"curl", "--silent", "--show-error", "--fail", "--output", path(FileName)}
		from := j.Sender.At(ports[i%len(ports)]) + "/" + FileName
		if n.tls { // with our tool's cipher, and without checking the certificate
			command = append(command, "--insecure", "--tls13-ciphers", "TLS_AES_128_GCM_SHA256", "https://"+from)
		} else {
			command = append(command, "http://"+from)
		}
		if n.hash != "" {
			command = []string{"sh", "-c", strings.Join(command, " ") + " && " + n.hash + " " + path(FileName)}
		}
		download, err := start(receiver, command[0], command[1:]...)
		if err != nil {
			return err
		}
		downloads[i] = download
	}
	return await(ctx, downloads...)
}

// rsync is an rsync daemon from which every receiver pulls.
type rsync struct{}

func (rsync) Name() string       { return "rsync" }
func (rsync) Programs() []string { return []string{"rsync"} }
func (rsync) Multicast() bool    { return false }

const rsyncConfig = `use chroot = no
uid = root
gid = root
[files]
path = /mnt
`

func (rsync) Prepare(ctx context.Context, j *Job) error {
	if err := j.write(j.Sender, "rsyncd.conf", rsyncConfig, 0o644); err != nil {
		return err
	}
	if _, err := start(j.Sender, "rsync", "--daemon", "--no-detach", "--config", path("rsyncd.conf")); err != nil {
		return err
	}
	return j.listening(ctx, 873)
}

func (rsync) Deliver(ctx context.Context, j *Job) error {
	from := "rsync://" + j.Sender.Addr().String() + "/files/" + FileName
	arguments := []string{"--whole-file", from, path(FileName)}
	if j.Directory { // it looks for changes by size and time, and in changed files for what stays, as it does by default
		arguments = []string{"--recursive", "--perms", "--times", "--delete", from + "/", path(FileName)}
	}
	pulls, err := j.startAll("rsync", arguments...)
	if err != nil {
		return err
	}
	return await(ctx, pulls...)
}
