#include <cstdio>
#include <functional>
#include <memory>

#include "commands.h"
#include "tensora/base/check.h"

// Scripts that complete the command line in a shell, made from the commands themselves.

namespace tensora::cli {
namespace {

struct Choice {
  std::string option;               // "--preset"
  std::string help;                 // its first line
  std::vector<std::string> values;  // if only some are valid
  bool takes_value = true;
};
struct Command {
  std::string path;  // "tensora train lm"
  std::string help;
  std::vector<std::string> names;  // of its subcommands
  std::vector<Choice> choices;
};

// The words of "TEXT:{tiny,small,gpt2}".
std::vector<std::string> values_of(const std::string& type) {
  const size_t open = type.find('{'), close = type.find('}');
  std::vector<std::string> out;
  if (open == type.npos || close == type.npos) return out;
  size_t start = open + 1;
  while (start <= close) {
    const size_t end = std::min(type.find(',', start), close);
    out.push_back(type.substr(start, end - start));
    start = end + 1;
  }
  return out;
}

void collect(const CLI::App& app, const std::string& path, std::vector<Command>& out) {
  Command command{path, app.get_description(), {}, {}};
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      const std::string help = option->get_description();
      command.choices.push_back({"--" + name, help.substr(0, help.find('\n')),
                                 values_of(option->get_type_name()),
                                 option->get_items_expected_max() > 0});
    }
  }
  const auto below = app.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* sub : below) command.names.push_back(sub->get_name());
  out.push_back(std::move(command));
  for (const CLI::App* sub : below) collect(*sub, path + " " + sub->get_name(), out);
}

std::string join(const std::vector<std::string>& words) {
  std::string out;
  for (const std::string& word : words) out += (out.empty() ? "" : " ") + word;
  return out;
}

std::string words_of(const Command& command) {
  std::string out = join(command.names);
  for (const Choice& choice : command.choices) out += (out.empty() ? "" : " ") + choice.option;
  return out;
}

// The body that bash and zsh share: `so_far` is the command, `before` the word before the one
// that is completed; sets `choices`.
std::string cases(const std::vector<Command>& commands) {
  std::string out = "  case \"$so_far $before\" in\n";
  for (const Command& command : commands)
    for (const Choice& choice : command.choices)
      if (!choice.values.empty())
        out += concat("    '", command.path, " ", choice.option, "') choices='",
                      join(choice.values), "'; return ;;\n");
  out += "  esac\n  case \"$so_far\" in\n";
  for (const Command& command : commands)
    out += concat("    '", command.path, "') choices='", words_of(command), "' ;;\n");
  return out + "  esac\n";
}

std::string walk(const std::vector<Command>& commands) {
  std::string paths;
  for (const Command& command : commands)
    paths += concat(paths.empty() ? "" : "|", "'", command.path, "'");
  return concat("    case \"$so_far $word\" in ", paths, ") so_far=\"$so_far $word\" ;; esac\n");
}

std::string bash(const std::vector<Command>& commands) {
  return concat(
      "# tensora: completion for bash. Load it with: source <(tensora completion bash)\n"
      "_tensora_choices() {\n"
      "  local so_far=tensora before=$1 word\n"
      "  shift\n"
      "  for word in \"$@\"; do\n",
      walk(commands), "  done\n", cases(commands),
      "}\n"
      "_tensora() {\n"
      "  local current=${COMP_WORDS[COMP_CWORD]} choices=''\n"
      "  _tensora_choices \"${COMP_WORDS[COMP_CWORD-1]}\" \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"\n"
      "  COMPREPLY=($(compgen -W \"$choices\" -- \"$current\"))\n"
      "  # Where no word fits, a file may.\n"
      "  ((${#COMPREPLY[@]})) || COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "}\n"
      "complete -o filenames -F _tensora tensora\n");
}

std::string zsh(const std::vector<Command>& commands) {
  return concat(
      "#compdef tensora\n"
      "# tensora: completion for zsh. Load it with: source <(tensora completion zsh)\n"
      "_tensora_choices() {\n"
      "  local so_far=tensora before=$1 word\n"
      "  shift\n"
      "  for word in \"$@\"; do\n",
      walk(commands), "  done\n", cases(commands),
      "}\n"
      "_tensora() {\n"
      "  local choices=''\n"
      "  _tensora_choices \"${words[CURRENT-1]}\" \"${(@)words[2,CURRENT-1]}\"\n"
      "  compadd -- ${=choices}\n"
      "  _files\n"
      "}\n"
      "compdef _tensora tensora\n");
}

std::string in_quotes(const std::string& text) {
  std::string out = "'";
  for (const char letter : text)
    out += letter == '\'' ? std::string("\\'") : std::string(1, letter);
  return out + "'";
}

std::string fish(const std::vector<Command>& commands) {
  std::string out =
      "# tensora: completion for fish. Load it with: tensora completion fish | source\n";
  for (const Command& command : commands) {
    // "tensora train lm" is wanted where train and lm were given and no command below lm.
    std::string condition;
    for (size_t at = command.path.find(' '); at != command.path.npos;) {
      const size_t end = command.path.find(' ', at + 1);
      const std::string word =
          command.path.substr(at + 1, end == command.path.npos ? end : end - at - 1);
      condition += concat(condition.empty() ? "" : "; and ", "__fish_seen_subcommand_from ", word);
      at = end;
    }
    if (!command.names.empty())
      condition += concat(condition.empty() ? "" : "; and ", "not __fish_seen_subcommand_from ",
                          join(command.names));
    const std::string start = concat("complete -c tensora -n ", in_quotes(condition));
    for (const std::string& name : command.names) {
      std::string help;
      for (const Command& other : commands)
        if (other.path == command.path + " " + name) help = other.help;
      out += concat(start, " -f -a ", name, " -d ", in_quotes(help), "\n");
    }
    for (const Choice& choice : command.choices)
      out += concat(start, " -l ", choice.option.substr(2), choice.takes_value ? " -r" : "",
                    choice.values.empty() ? "" : concat(" -f -a ", in_quotes(join(choice.values))),
                    " -d ", in_quotes(choice.help), "\n");
  }
  return out;
}

}  // namespace

void add_completion(CLI::App& app) {
  CLI::App* command = app.add_subcommand(
      "completion", "Print a script that completes commands and options in a shell");
  auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "The shell")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  command->footer(
      "Examples:\n"
      "  source <(tensora completion bash)            now; in ~/.bashrc: always\n"
      "  source <(tensora completion zsh)\n"
      "  tensora completion fish > ~/.config/fish/completions/tensora.fish");
  command->callback([&app, shell] {
    std::vector<Command> commands;
    collect(app, "tensora", commands);
    const std::string text = *shell == "bash"  ? bash(commands)
                             : *shell == "zsh" ? zsh(commands)
                                               : fish(commands);
    std::fputs(text.c_str(), stdout);
  });
}

}  // namespace tensora::cli
