
find_runtime() {
  local found
  found=$(type -P "$runtime") || refuse 127 "there is no $runtime on $HOSTNAME; PATH is $PATH"
  runtime=$found
}

# Each container has a /tmp of its own, on the node.
own_tmp() {
  mkdir -m 1777 "$scratch/$name.tmp"
  mount "$scratch/$name.tmp" /tmp
  mount "$scratch/$name.tmp" /var/tmp
}

overlay() {
  mkdir -p "$scratch/$name.overlay"
  echo "$scratch/$name.overlay"
}

# emptyDir VOLUME SUBPATH TARGET [ro]
empty() {
  mkdir -p "$dir/volumes/$1/$2"
  mount "$dir/volumes/$1${2:+/$2}" "$3" "$4"
}

# configMap, secret, downwardAPI, projected: VOLUME SUBPATH TARGET
staged() { mount "$dir/files/$1${2:+/$2}" "$3" ro; }

# A directory of the site: PATH SUBPATH TARGET [ro]
site() {
  [[ -z $2 || $4 == ro ]] || mkdir -p "$1/$2"
  mount "$1${2:+/$2}" "$3" "$4"
}

mount() {
  local from=$1 to=$2
  case $from$to in
  *[,:\"\\]*) # what --bind would cut apart; --mount reads CSV
    binds+=(--mount "type=bind,\"source=${from//\"/\"\"}\",\"destination=${to//\"/\"\"}\"${3:+,$3}")
    ;;
  *) binds+=(--bind "$from:$to${3:+:$3}") ;;
  esac
}

# The words that run the loaded container, and the variables that the runtime hands to it.
container_words() {
  local entry key value inside=() verb='exec'
  # shellcheck disable=SC2086
  unset ${!APPTAINERENV_@} ${!SINGULARITYENV_@}
  for entry in "${env[@]}"; do
    key=${entry%%=*}
    case $key in
    HOME | UID | EUID | GID | '' | [!A-Za-z_]* | *[!A-Za-z0-9_]*) inside+=("$entry") ;; # the runtime cannot set these
    *)
      value=${entry#*=}
      if [[ $evaluates ]]; then # a runtime before --no-eval reads values as shell text
        value=${value//\\/\\\\} value=${value//\$/\\\$} value=${value//\`/\\\`}
      fi
      export "$env_prefix$key=$value"
      ;;
    esac
  done
  [[ $command ]] || verb='run'
  if [[ ${inside[*]} ]]; then
    [[ $command ]] || argv=(/.singularity.d/runscript "${argv[@]}")
    [[ ${argv[0]} != *=* ]] || argv=(sh -c 'exec "$@"' sh "${argv[@]}")
    argv=(env -- "${inside[@]}" "${argv[@]}")
    verb='exec'
  fi
  words=("$runtime" --quiet "$verb" "${options[@]}" "${binds[@]}" ${workdir:+--pwd "$workdir"} "$image" "${argv[@]}")
}
