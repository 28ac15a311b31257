package device_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/groupcast/groupcast/services/replicator/device"
)

// A disk is known by its serial number however the kernel tells it, and so is a part of the disk. What has none is known by no other's.
func TestSerialNumbers(t *testing.T) {
	const (
		nvme   = "pci0000:00/0000:01:00.0/nvme/nvme0/nvme0n1"
		virtio = "pci0000:00/0000:00:02.0/virtio1/block/vda"
		sata   = "pci0000:00/0000:00:17.0/ata1/host0/target0:0:0/0:0:0:0/block/sda"
		stick  = "pci0000:00/0000:00:14.0/usb1/1-4/1-4.1/1-4.1:1.0/host6/target6:0:0/6:0:0:0/block/sdb"
	)
	page := "\x00\x80\x00\x14" + "            WD-12345"
	hub := map[string]string{"../../../../../../../serial": "HUB", "../../../../../../../idVendor": "1d6b", "../../../../../../idVendor": "0781"}
	for name, c := range map[string]struct {
		at, part string
		files    map[string]string
		want     string
	}{
		"NVMe":       {nvme, "", map[string]string{"device/serial": "S4EW  \n"}, "S4EW"},
		"its part":   {nvme, "nvme0n1p1", map[string]string{"device/serial": "S4EW  \n"}, "S4EW"},
		"virtio":     {virtio, "", map[string]string{"serial": "root-1"}, "root-1"},
		"SATA":       {sata, "", map[string]string{"device/vpd_pg80": page}, "WD-12345"},
		"its second": {sata, "sda2", map[string]string{"device/vpd_pg80": page}, "WD-12345"},
		"SAS":        {sata, "", map[string]string{"device/vpd_pg80": "\x00\x80\x00\x08Z1\x00\x00\x00\x00\x00\x00"}, "Z1"},
		"USB":        {stick, "", map[string]string{"../../../../../../serial": "4C53\n", "../../../../../../idVendor": "0781\n"}, "4C53"},
		"on USB":     {stick, "sdb1", map[string]string{"../../../../../../serial": "4C53\n", "../../../../../../idVendor": "0781\n"}, "4C53"},
		"of a hub":   {stick, "", hub, ""},
		"and part":   {stick, "sdb1", hub, ""},
		"empty":      {virtio, "", map[string]string{"serial": ""}, ""},
		"cut short":  {sata, "", map[string]string{"device/vpd_pg80": "\x00"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			disk := filepath.Join(t.TempDir(), c.at)
			files := map[string]string{"partition": "1\n"}
			for at, content := range c.files {
				files[filepath.Join("..", at)] = content
			}
			if c.part == "" {
				files = c.files
			}
			folder := filepath.Join(disk, c.part)
			for at, content := range files {
				at = filepath.Join(folder, at)
				if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o700), os.WriteFile(at, []byte(content), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			if got, err := device.SerialIn(folder); got != c.want || (err != nil) != (c.want == "") {
				t.Errorf("it is %q, %v, want %q", got, err, c.want)
			}
		})
	}
}
