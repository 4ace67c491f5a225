package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// image is the image of the last stage of the Dockerfile, in the layout of the Open Container
// Initiative.
type image struct {
	at                       time.Time
	version, revision, roots string
	blobs                    map[string][]byte // by digest
}

// object is a JSON object. Its names are written in sorted order.
type object map[string]any

// descriptor names a blob.
func (i *image) descriptor(mediaType string, blob []byte, more object) object {
	sum := sha256.Sum256(blob)
	name := hex.EncodeToString(sum[:])
	i.blobs[name] = blob
	all := object{typeKey: mediaType, "digest": "sha256:" + name, "size": len(blob)}
	maps.Copy(all, more)
	return all
}

func (i *image) json(mediaType string, content, more object) (object, error) {
	text, err := json.Marshal(content)
	if err != nil {
		return nil, err
	}
	return i.descriptor(mediaType, text, more), nil
}

const (
	mediaTypes = "application/vnd.oci.image."
	typeKey    = "mediaType"
)

// write writes the image for all processors. Each command is given as <goarch>=<file>.
func (i *image) write(name, dockerfile string, commands []string) error {
	config, err := readDockerfile(dockerfile)
	if err != nil {
		return err
	}
	i.blobs = make(map[string][]byte)
	var manifests []object
	for _, command := range commands {
		processor, file, _ := strings.Cut(command, "=")
		manifest, err := i.manifest(config, processor, file)
		if err != nil {
			return err
		}
		manifests = append(manifests, manifest)
	}
	// An image for several processors is an index of manifests, which the index of the layout
	// names.
	indexType := mediaTypes + "index.v1+json"
	ref := "feedfilter:" + strings.ReplaceAll(i.version, "+", "_")
	all, err := i.json(indexType, object{
		"schemaVersion": 2,
		typeKey:         indexType,
		"manifests":     manifests,
		"annotations":   i.annotations(),
	}, object{"annotations": object{"org.opencontainers.image.ref.name": ref}})
	if err != nil {
		return err
	}
	index, err := json.Marshal(object{
		"schemaVersion": 2, typeKey: indexType, "manifests": []object{all},
	})
	if err != nil {
		return err
	}
	return i.save(name, index)
}

func (i *image) annotations() object {
	return object{
		"org.opencontainers.image.title":    "feedfilter",
		"org.opencontainers.image.licenses": "Apache-2.0",
		"org.opencontainers.image.version":  i.version,
		"org.opencontainers.image.revision": i.revision,
		"org.opencontainers.image.created":  i.at.Format(time.RFC3339),
	}
}

// manifest makes the image for one processor.
func (i *image) manifest(config object, processor, command string) (object, error) {
	layer, plain, err := i.layer(config, command)
	if err != nil {
		return nil, err
	}
	config = maps.Clone(config)
	config["Labels"] = i.annotations()
	created := i.at.Format(time.RFC3339)
	described, err := i.json(mediaTypes+"config.v1+json", object{
		"created": created, "architecture": processor, "os": "linux", "config": config,
		"rootfs":  object{"type": "layers", "diff_ids": []string{"sha256:" + plain}},
		"history": []object{{"created": created, "created_by": "make dist"}},
	}, nil)
	if err != nil {
		return nil, err
	}
	return i.json(mediaTypes+"manifest.v1+json", object{
		"schemaVersion": 2,
		typeKey:         mediaTypes + "manifest.v1+json",
		"config":        described,
		"layers":        []object{i.descriptor(mediaTypes+"layer.v1.tar+gzip", layer, nil)},
		"annotations":   i.annotations(),
	}, object{"platform": object{"os": "linux", "architecture": processor}})
}

// layer returns the compressed file system, and the digest of the file system before compression.
func (i *image) layer(config object, command string) (layer []byte, plain string, err error) {
	user, _, _ := strings.Cut(fmt.Sprint(config["User"]), ":")
	id, err := strconv.Atoi(user)
	if err != nil || id == 0 {
		return nil, "", fmt.Errorf("user %q: not a number above 0", user)
	}
	home := strings.TrimPrefix(fmt.Sprint(config["WorkingDir"]), "/")
	passwd := fmt.Sprintf("feedfilter:x:%d:%d::/%s:/sbin/nologin\n", id, id, home)
	var files bytes.Buffer
	t := tree{Writer: tar.NewWriter(&files), at: i.at}
	for _, err := range []error{
		t.directory(home, 0o755, id),
		t.file("etc/group", 0o644, fmt.Appendf(nil, "feedfilter:x:%d:\n", id)),
		t.file("etc/passwd", 0o644, []byte(passwd)),
		t.copy(i.roots, "etc/ssl/certs/ca-certificates.crt"),
		t.copy(command, "usr/bin/feedfilter"),
		t.Close(),
	} {
		if err != nil {
			return nil, "", err
		}
	}
	sum := sha256.Sum256(files.Bytes())
	var zipped bytes.Buffer
	w, err := gzip.NewWriterLevel(&zipped, gzip.BestCompression)
	if err != nil {
		return nil, "", err
	}
	if _, err := w.Write(files.Bytes()); err != nil {
		return nil, "", err
	}
	if err := w.Close(); err != nil {
		return nil, "", err
	}
	return zipped.Bytes(), hex.EncodeToString(sum[:]), nil
}

// save writes the layout as a tar.
func (i *image) save(name string, index []byte) error {
	out, err := os.Create(name) //nolint:gosec // the caller names the file
	if err != nil {
		return err
	}
	defer func() { _ = out.Close() }() // no effect after the Close below
	t := tree{Writer: tar.NewWriter(out), at: i.at}
	if err := t.file("oci-layout", 0o644, []byte(`{"imageLayoutVersion":"1.0.0"}`)); err != nil {
		return err
	}
	if err := t.file("index.json", 0o644, index); err != nil {
		return err
	}
	for _, digest := range slices.Sorted(maps.Keys(i.blobs)) {
		if err := t.file("blobs/sha256/"+digest, 0o644, i.blobs[digest]); err != nil {
			return err
		}
	}
	if err := t.Close(); err != nil {
		return err
	}
	return out.Close()
}
