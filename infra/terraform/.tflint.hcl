# The rules for the language itself, all of them. They come with tflint: nothing is downloaded.
plugin "terraform" {
  enabled = true
  preset  = "all"
}
