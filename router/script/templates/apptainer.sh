
find_runtime() {
  local found
  found=$(type -P "$runtime") || refuse 127 "there is no $runtime on $HOSTNAME; PATH is $PATH"
  runtime=$found
}

# Each container has a /tmp of its own, on the node.
own_tmp() {
  rm -rf "$scratch/$name.tmp" # of an earlier run: a container starts from its image
  mkdir -m 1777 "$scratch/$name.tmp"
  mount "$scratch/$name.tmp" /tmp
  mount "$scratch/$name.tmp" /var/tmp
}

overlay() {
  rm -rf "$scratch/$name.overlay"
  mkdir "$scratch/$name.overlay"
  echo "$scratch/$name.overlay"
}

# ROOT SUBPATH [ro]: $below, the path below a volume's root, made where it lacks. A container may have planted links in
# the volume; one that leads out of it is refused, or the host would be bound in.
find_below() {
  local root part parts
  root=$(realpath -e "$1" 2>/dev/null) || missing "$1"
  below=$root
  IFS=/ read -r -a parts <<<"$2"
  for part in "${parts[@]}"; do
    [[ $part && $part != . ]] || continue
    [[ ${3:-} || -e $below/$part || -L $below/$part ]] || mkdir "$below/$part"
    below=$(realpath -e "$below/$part" 2>/dev/null) || missing "$1/$2"
    if [[ $below/ != "$root"/* ]]; then
      say "the subPath $2 leads out of its volume, by a link: the container is not started"
      exit 1
    fi
  done
}

missing() {
  say "there is no $1 on $HOSTNAME, which is to be mounted: the container is not started"
  exit 1
}

# emptyDir VOLUME SUBPATH TARGET [ro]
empty() {
  local below
  mkdir -p "$dir/volumes/$1"
  find_below "$dir/volumes/$1" "$2"
  mount "$below" "$3" "$4"
}

# configMap, secret, downwardAPI, projected: VOLUME SUBPATH TARGET
staged() {
  local below
  find_below "$dir/files/$1" "$2" ro
  mount "$below" "$3" ro
}

# A directory of the site: PATH SUBPATH TARGET [ro]
site() {
  local below
  find_below "$1" "$2" "$4"
  mount "$below" "$3" "$4"
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
