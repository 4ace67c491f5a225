package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"syscall"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// scrape starts a service, records something in it, and returns the metrics that it then exports.
func scrape(program string) (families map[string]*dto.MetricFamily, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	dir, err := os.MkdirTemp("", "monitoring")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	serve := exec.CommandContext(
		ctx, program, "serve", "--addr", "127.0.0.1:0", "--data-dir", dir, "--pages", "64",
	)
	log, err := serve.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := serve.Start(); err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, serve.Process.Signal(syscall.SIGTERM))
		err = errors.Join(err, serve.Wait())
	}()
	lines := bufio.NewScanner(log)
	if !lines.Scan() {
		return nil, fmt.Errorf("%s serve: it says nothing", program)
	}
	var first struct{ Addr string }
	if err := json.Unmarshal(lines.Bytes(), &first); err != nil || first.Addr == "" {
		return nil, fmt.Errorf("%s serve: %s", program, lines.Bytes())
	}
	go func() {
		for lines.Scan() { // a full pipe would block the service
		}
	}()
	base := "http://" + first.Addr
	recorded, err := ask(ctx, http.MethodPut, base+"/v1/users/1/blocks/2")
	if err != nil {
		return nil, err
	}
	_ = recorded.Body.Close()
	answer, err := ask(ctx, http.MethodGet, base+"/metrics")
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(answer.Body)
}

func ask(ctx context.Context, method, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	answer, err := http.DefaultClient.Do(request)
	if err == nil && answer.StatusCode != http.StatusOK {
		_ = answer.Body.Close()
		err = fmt.Errorf("%s %s: %s", method, url, answer.Status)
	}
	return answer, err
}
