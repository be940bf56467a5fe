# shellcheck shell=bash
install
check "helm test" h test "$release" --timeout 120s --logs
start sparse-lr train --epochs=20
check "an indexed Job trains to its reference loss" complete train 300
last_words train
