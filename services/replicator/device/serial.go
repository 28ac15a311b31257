package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// errNoSerial says that a device has no serial number, or that the kernel does not tell it.
var errNoSerial = errors.New("the kernel tells none")

// serialOf reads a device's serial number, or that of the disk that it is a part of.
func serialOf(file *os.File) (string, error) {
	number, err := numberOf(file)
	if err != nil {
		return "", err
	}
	folder, err := filepath.EvalSymlinks("/sys/dev/block/" + number)
	if err != nil {
		return "", fmt.Errorf("serial number of %s: %w", file.Name(), err)
	}
	serial, err := serialIn(folder)
	if err != nil {
		return "", fmt.Errorf("serial number of %s: %w", file.Name(), err)
	}
	return serial, nil
}

// vpdHeader is how long the beginning of a page of vital product data is (SPC-4, 7.8).
const vpdHeader = 4

// serialIn reads the serial number from what the kernel tells of a block device in a folder, whose path has no links. NVMe, MMC and
// virtio-blk have it as text; SCSI disks, and those that are taken for such, as with SATA, on page 80h of their vital product data. Of most
// USB disks that page is not asked for: what has the number is the USB device.
func serialIn(folder string) (string, error) {
	disk := folder
	if isThere(filepath.Join(folder, "partition")) {
		disk = filepath.Dir(folder)
	}
	// The folders above it are those of all block devices, the logical unit, the target, the host, the USB interface and the USB device.
	usb := filepath.Join(disk, "../../../../../..")
	paths := []string{"device/serial", "serial", "device/vpd_pg80", "loop/backing_file"}
	for i := range paths {
		paths[i] = filepath.Join(disk, paths[i])
	}
	if isThere(filepath.Join(usb, "idVendor")) {
		paths = append(paths, filepath.Join(usb, "serial"))
	}
	for _, at := range paths {
		content, err := os.ReadFile(at)
		if filepath.Base(at) == "vpd_pg80" {
			content = content[min(vpdHeader, len(content)):]
		}
		if serial := strings.Trim(string(content), "\x00 \t\r\n"); err == nil && serial != "" {
			return serial, nil
		}
	}
	return "", errNoSerial
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
