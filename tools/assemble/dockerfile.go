package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

// readDockerfile returns the configuration that the last stage of a Dockerfile gives to its image.
// It accepts only the instructions of this project's Dockerfile, each on one line.
func readDockerfile(name string) (object, error) {
	text, err := os.ReadFile(name) //nolint:gosec // the caller names the file
	if err != nil {
		return nil, err
	}
	config := make(object)
	for line := range strings.Lines(string(text)) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if instruction == "FROM" {
			clear(config)
			config["from"] = rest
		}
		if config["from"] != "scratch" {
			continue
		}
		if err := configure(config, instruction, strings.TrimSpace(rest)); err != nil {
			return nil, fmt.Errorf("%s: %s %s: %w", name, instruction, rest, err)
		}
	}
	delete(config, "from")
	return config, nil
}

// configure applies one instruction to the configuration of the image.
func configure(config object, instruction, rest string) error {
	switch instruction {
	case "FROM", "COPY", "", "#":
		return nil // image.layer adds the copied files
	case "USER":
		config["User"] = rest
	case "WORKDIR":
		config["WorkingDir"] = rest
	case "STOPSIGNAL":
		config["StopSignal"] = rest
	case "VOLUME":
		config["Volumes"] = object{rest: object{}}
	case "EXPOSE":
		config["ExposedPorts"] = object{rest + "/tcp": object{}}
	case "ENV":
		config["Env"] = strings.Fields(rest)
	case "ENTRYPOINT":
		return words(config, "Entrypoint", rest)
	case "CMD":
		return words(config, "Cmd", rest)
	case "HEALTHCHECK":
		return healthcheck(config, rest)
	default:
		return errors.New("an instruction that make dist does not know")
	}
	return nil
}

// words reads the JSON form of a command.
func words(config object, name, text string) error {
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return fmt.Errorf("not a JSON array of words: %w", err)
	}
	config[name] = list
	return nil
}

// healthcheck reads the options and the command of a health check. Docker runs it; other engines
// ignore it.
func healthcheck(config object, rest string) error {
	options, command, _ := strings.Cut(rest, " CMD ")
	check := make(object)
	if err := words(check, "Test", command); err != nil {
		return err
	}
	if list, ok := check["Test"].([]string); ok {
		check["Test"] = append([]string{"CMD"}, list...)
	}
	names := map[string]string{
		"--interval":     "Interval",
		"--timeout":      "Timeout",
		"--start-period": "StartPeriod",
	}
	for option := range strings.FieldsSeq(options) {
		name, value, _ := strings.Cut(option, "=")
		switch {
		case name == "--retries":
			check["Retries"] = json.Number(value)
		case names[name] != "":
			period, err := time.ParseDuration(value)
			if err != nil {
				return err
			}
			check[names[name]] = period
		default:
			return fmt.Errorf("unknown option %s", name)
		}
	}
	config["Healthcheck"] = check
	return nil
}
